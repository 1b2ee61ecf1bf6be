# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the first start takes, by machine: docs/start_times.toml, and the table of it in docs/start.md.

    bash jobs/quickstart.sh                                       # in a new clone
    .venv/bin/python jobs/start_times.py record runs/quickstart
    .venv/bin/python jobs/start_times.py table                    # after the file was changed by hand
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from machine_table import MachineTable, markdown, processor

ROOT = Path(__file__).resolve().parents[1]
TABLE = MachineTable(ROOT / "docs" / "start_times.toml", ROOT / "docs" / "start.md", "start_times.py")
BUILD = "build, packages, data"
STEPS = ("system packages", "LibTorch", BUILD, "experiment", "tables and report")  # in their order
# Older records have packages, build and data apart.
ROWS = ("system packages", "LibTorch", "Python packages", "build", "data", BUILD, "experiment", "tables and report")


class TimesError(Exception):
    """The text is one line for the user."""


def as_time(seconds: int) -> str:
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min {seconds % 60} s"


def table(recorded: str) -> str:
    """A column a machine, a row a step; what a machine's record does not say apart stays empty."""
    machines: list[dict[str, Any]] = tomllib.loads(recorded)["machine"]
    heads = [f"{m['processor']}, {m['cores']} cores, {m['date']:%-d %B %Y}" for m in machines]
    rows = [["from a clone to the report", *heads], ["---", *("---:" for _ in machines)]]
    for step in ROWS:
        taken = [m["steps"].get(step) for m in machines]
        rows.append([step, *("" if seconds is None else as_time(seconds) for seconds in taken)])
    rows.append(["all", *(as_time(m["all"]) for m in machines)])
    return markdown(rows)


def steps_of(run: Path) -> dict[str, int]:
    """What RUN/start.tsv says."""
    path = run / "start.tsv"
    try:
        lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        steps = {name: int(seconds) for seconds, name in lines}
    except OSError as error:
        raise TimesError(f"{path}: {error.strerror}; expected the folder of jobs/quickstart.sh's run") from None
    except ValueError:
        raise TimesError(f"{path}: expected lines of seconds and a step's name") from None
    if list(steps) != list(STEPS):
        raise TimesError(f"{path}: has the steps {', '.join(steps)}; expected {', '.join(STEPS)}")
    if steps[BUILD] < 60:
        raise TimesError(f"{path}: the build took {as_time(steps[BUILD])}; expected a first start, in a new clone")
    return steps


def record(run: Path) -> None:
    """Appends this machine's first start, and renews the page."""
    steps = steps_of(run)
    day = datetime.fromtimestamp((run / "start.tsv").stat().st_mtime, UTC).date()
    rows = "".join(f'"{name}" = {seconds}\n' for name, seconds in steps.items())
    entry = (f'[[machine]]\nprocessor = "{processor()}"\ncores = {os.cpu_count()}\ndate = {day}\n'
             f"all = {sum(steps.values())}\n[machine.steps]\n{rows}")
    TABLE.add(entry)
    renew()


def renew() -> None:
    TABLE.renew(table(TABLE.text()))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record", help="add this machine's first start").add_argument("run", type=Path, metavar="RUN")
    commands.add_parser("table", help="renew the table in docs/start.md")
    options = parser.parse_args(words)
    try:
        record(options.run) if options.command == "record" else renew()
    except TimesError as error:
        print(f"start_times.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
