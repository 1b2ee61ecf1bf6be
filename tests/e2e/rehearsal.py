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
    # For the ranks alone: the launcher would write counts of its own over theirs.
    libraries = f"{LIBRARY} {more} {launch.PRELOADED}".strip()
    command[1:1] = ["-x", f"LD_PRELOAD={libraries}", "-x", f"REHEARSAL_COUNTS={folder}.counts"]
    return subprocess.Popen(command, env=launch.environment(), text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(experiment: Path, folder: Path, *arguments: str, ranks: int = 1, more: str = "") -> Path:
    """Runs to the end; returns results.h5."""
    job = start(experiment, folder, *arguments, ranks=ranks, more=more)
    _, said = job.communicate(timeout=launch.PATIENCE)
    assert job.returncode == 0, said
    return folder / "results.h5"


def _count(folder: Path, place: int) -> int:
    return int(Path(str(folder) + ".counts").read_text().split()[place])


def waits(folder: Path) -> int:
    return _count(folder, 0)


def sent_beside(folder: Path) -> int:
    """Copies to the device on another stream than the one that computes."""
    return _count(folder, 1)


def kept(folder: Path) -> int:
    """Tensors whose memory was kept for the stream that computes, which had not made them."""
    return _count(folder, 2)
