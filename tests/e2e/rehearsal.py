# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Starts the program on the rehearsal device: its memory is the host's, it refuses tensors of host and device in one
operation, and counts what would make the host wait for a GPU."""

import os
import subprocess
from pathlib import Path

import launch

LIBRARY = os.environ["TAUGRID_REHEARSAL"]


def start(experiment: Path, folder: Path, *arguments: str, ranks: int = 1, more: str = "") -> subprocess.Popen[str]:
    """`more`: further libraries to load first."""
    command = launch.command(ranks, "run", experiment, "--run-dir", folder, "--device", "rehearsal", *arguments)
    command[1:1] = ["-x", "LD_PRELOAD", "-x", "REHEARSAL_WAITS"]
    environment = launch.environment() | {"LD_PRELOAD": f"{LIBRARY} {more}".strip(),
                                          "REHEARSAL_WAITS": str(folder) + ".waits"}
    return subprocess.Popen(command, env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def run(experiment: Path, folder: Path, *arguments: str, ranks: int = 1, more: str = "") -> Path:
    """To the end; returns results.h5."""
    job = start(experiment, folder, *arguments, ranks=ranks, more=more)
    _, said = job.communicate(timeout=launch.PATIENCE)
    assert job.returncode == 0, said
    return folder / "results.h5"


def waits(folder: Path) -> int:
    return int(Path(str(folder) + ".waits").read_text())
