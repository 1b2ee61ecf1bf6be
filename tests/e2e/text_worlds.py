# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What worlds of texts share: their folder, how they are packed, and how a spoilt one is refused."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch import run

PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True)
class TextWorld:
    folder: Path

    @property
    def experiment(self) -> Path:
        return self.folder / "papers.toml"

    def task(self, name: str) -> Path:
        return self.folder / "data" / f"{name}.h5"


def pack(calls: list[list[str]]) -> None:
    """Calls of jobs/prepare, in one process."""
    several = f"import sys; sys.path.insert(0, '{PROJECT}/jobs/prepare'); from command import main\n"
    subprocess.run([sys.executable, "-c", several + f"sys.exit(max(main(call) for call in {calls}))"], check=True,
                   timeout=300)


def refused_in_one_line(world: TextWorld, change: Callable[[Any], object], expected: str, tmp_path: Path,
                        ranks: int) -> None:
    """A copy of the world, changed so, ends a run with 2 and one line, before there is a run folder."""
    copy = type(world)(tmp_path / "world")
    for part in ("model", "data"):
        shutil.copytree(world.folder / part, copy.folder / part)
    copy.experiment.write_bytes(world.experiment.read_bytes())
    change(copy)
    refused = run(ranks, "run", copy.experiment, "--run-dir", tmp_path / "run")
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.count("\n") == 1 and expected in refused.stderr, refused.stderr
    assert not (tmp_path / "run").exists()
