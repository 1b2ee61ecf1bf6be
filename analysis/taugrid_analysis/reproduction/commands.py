# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The commands `record` and `reproduce`."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from taugrid_analysis.errors import InputError
from taugrid_analysis.page import renderings
from taugrid_analysis.page.renderings import RENDERERS

QUICKSTART = "quickstart"
STOPPED = 75  # the exit code of a job that stopped at a safe point
COMMANDS = ("record", "reproduce")
WITHOUT = {"TAUGRID_REPRODUCE": "no"}  # the quickstart ends with the comparison, which stands here too


def add(commands: Any) -> None:
    """To argparse's subcommands."""
    reproduce = commands.add_parser(
        "reproduce",
        help="runs an experiment again, and compares every number with a recorded run of it",
        description="Compares every number of a run's tables with those of a recorded run of the same"
        " experiment, each within its standard error, and prints those that part. Without RUN it runs the"
        " experiment first, by jobs/quickstart.sh or jobs/paper.sh NAME, in runs/reproduced/NAME (RUN=FOLDER"
        " in the environment names another), and goes on there where it was interrupted. A run that is"
        " finished there is compared as it is, and one of another revision of taugrid is refused: remove the"
        " folder to compute it again.",
        epilog="Exit codes: 0 all numbers agree as far as chance allows; 1 some part or are missing; 2 wrong"
        " input, such as a run of another configuration or schema; 75 the job stopped early: run it again to"
        " go on. The rule: a number with an error parts beyond the bound that chance exceeds in 5 % of"
        " comparisons for any of them (Bonferroni). One without an error parts beyond 1e-6 of itself, where"
        " LibTorch, device and processor are the recorded ones; elsewhere it decides nothing.",
    )
    reproduce.add_argument("name", metavar="NAME", help="quickstart, or another recorded run")
    reproduce.add_argument(
        "run",
        metavar="RUN",
        type=Path,
        nargs="?",
        help="a finished run: nothing is run; folder or results.h5",
    )
    reproduce.add_argument("--all", action="store_true", help="every number, the furthest apart first")
    reproduce.add_argument("--format", choices=sorted(RENDERERS), default="text")
    record = commands.add_parser(
        "record",
        help="keeps a finished run's tables, with which `reproduce` compares later runs",
        description="Writes the tables of a finished run, each number with all digits and its error, with the"
        " run's configuration, seeds, revision, machine and date, into NAME.json in the place of an older"
        " one. It takes less than 4 MB, and belongs into the repository.",
        epilog="Record a run of a committed revision, and say in the commit why numbers changed.",
    )
    record.add_argument("run", metavar="RUN", type=Path, help="run folder, or its results.h5")
    record.add_argument(
        "--as",
        dest="name",
        metavar="NAME",
        required=True,
        help="quickstart, a paper as jobs/paper.sh has it, or that and the rest of a further run's name, with"
        " _ for / and -, such as tangent_space_random or cross_task_linearity_causes_epochs_0",
    )
    for command in (reproduce, record):
        command.add_argument(
            "--references", type=Path, metavar="DIR", help="default: those that come with this program"
        )


def run(options: argparse.Namespace) -> int:
    if options.command == "record":
        return _record(options.run, options.name, options.references)
    return _reproduce(options)


def _record(path: Path, name: str, folder: Path | None) -> int:
    from taugrid_analysis.reproduction import reference
    from taugrid_analysis.run.opened import Run

    reference.file_of(name, folder)
    with Run(path) as run:
        recorded = reference.of_run(run, name)
    if recorded.revision.endswith("-dirty"):
        print(
            f"record: revision {recorded.revision}: nobody else can build that program again", file=sys.stderr
        )
    reference.store(recorded, folder)
    return 0


def _reproduce(options: argparse.Namespace) -> int:
    """Compares one run, or all runs of a job that are recorded: NAME and NAME_… beside each other."""
    from taugrid_analysis.reproduction import reference

    if options.run is not None:
        recorded = [reference.read(options.name, options.references)]
        paths = [options.run]
    else:
        names = reference.of_job(options.name, options.references) or [options.name]
        recorded = [reference.read(name, options.references) for name in names]
        place = os.environ.get("RUN") or f"runs/reproduced/{options.name}"
        root = _root()
        if code := _job(root, options.name, place):
            return code
        paths = [_place(root, place, kept.name.removeprefix(options.name)) for kept in recorded]
    codes = [_compare(kept, path, options) for kept, path in zip(recorded, paths, strict=True)]
    return max(codes)


def _compare(recorded: Any, path: Path, options: argparse.Namespace) -> int:
    from taugrid_analysis.reproduction import comparison, reference
    from taugrid_analysis.run.opened import Run

    with Run(path) as run:
        compared = comparison.compare(recorded, reference.of_run(run, recorded.name), run.path)
    table = comparison.table(compared, options.all)
    if table.rows or options.format != "text":
        renderings.print_tables([table], options.format)
    else:  # no line of headings above nothing
        print("\n".join([table.title, *(f"  {note}" for note in table.notes)]))
    return 0 if compared.agrees else 1


def _place(root: Path, place: str, rest: str) -> Path:
    """The run folder that the job made for a recorded run: its name has "_" where a path has "/" or "-"."""
    path = root / (place + rest)
    for run in sorted((*path.parent.glob("*/*/results.h5"), *path.parent.glob("*/results.h5"))):
        further = run.parent.relative_to(path.parent).as_posix().removeprefix(Path(place).name)
        if further.translate(str.maketrans("/-", "__")) == rest:
            return run.parent
    return path


def _root() -> Path:
    """The clone that has the jobs: the folder in which the command was given, or the one of this program."""
    for root in (Path.cwd(), Path(__file__).resolve().parents[3]):
        if (root / "jobs" / "quickstart.sh").is_file():
            return root
    raise InputError("has no jobs/quickstart.sh", Path.cwd(), "the folder of a clone, or RUN, a finished run")


def _job(root: Path, name: str, run: str) -> int:
    """Runs the experiment where it is not finished; 0, or the exit code where nothing can be compared."""
    words = ["bash", "jobs/quickstart.sh"] if name == QUICKSTART else ["bash", "jobs/paper.sh", name]
    print(f"reproduce: RUN={shlex.quote(run)} {shlex.join(words)}", file=sys.stderr, flush=True)
    code = subprocess.run(words, cwd=root, env=os.environ | WITHOUT | {"RUN": run}, check=False).returncode
    if code == STOPPED:
        return STOPPED
    if code:
        print(f"reproduce: the job ended with exit code {code}, so that nothing is compared", file=sys.stderr)
        return 2
    return 0
