# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What most end-to-end tests begin with: the little world, and finished runs of its two experiments on 2 ranks.

    python shared.py FOLDER

makes them in a folder for all tests of a ctest run, which names it in TAUGRID_SHARED: none changes what is there, and
each works on copies of the runs. By hand, without that variable, each session of pytest makes its own.
"""

import fcntl
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import world as worlds
from launch import measure

FOLDER = os.environ.get("TAUGRID_SHARED")


def world(base: Path) -> worlds.World:
    return worlds.World(Path(FOLDER) / "tiny") if FOLDER else worlds.make(base / "tiny")


def run(base: Path, name: str, experiment: Path) -> Path:
    """A finished run's folder, which is the caller's own."""
    folder = base / name
    if FOLDER:
        shutil.copytree(Path(FOLDER) / name, folder, symlinks=True)
    else:
        measure(experiment, folder)
    return folder


def once(base: Path, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that no test changes, made by the first that needs it: of a ctest run, or below `base` by hand."""
    parent = Path(FOLDER) if FOLDER else base
    with (parent / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (marker := parent / f"{name}.made").exists():
            shutil.rmtree(parent / name, ignore_errors=True)
            make(parent / name)
            marker.touch()
    return parent / name


def main(base: Path) -> None:
    shutil.rmtree(base, ignore_errors=True)
    tiny = worlds.make(base / "tiny")
    measure(tiny.experiment, base / "run")
    measure(tiny.papers, base / "papers")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
