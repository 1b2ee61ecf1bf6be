# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""How a host's cores are best shared out between ranks and their threads: a table in Markdown.

    .venv/bin/python jobs/threads.py [--program PROGRAM] [--cores N] [--cases NAME …] [--repetitions N]

Each case of `taugrid bench` runs on one core alone, and then on all of them in every way to share these out: R ranks of
T threads are R programs at once, each with OMP_NUM_THREADS=T, since the units of a run are as independent. A column
says how many times as many items a second all of them do as one core alone. It wants a machine without other load. On
two cores it takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from taugrid_analysis.errors import InputError
from taugrid_analysis.speed.bench_json import read_json

ROOT = Path(__file__).resolve().parents[1]
CASES = ("clip_b32/forward", "clip_b32/step", "clip_b32/ntk", "step/standard", "ntk", "text/step")


class ThreadsError(Exception):
    """The text is one line for the user."""


def shares(cores: int) -> list[tuple[int, int]]:
    """(ranks, threads) whose product is the number of cores, most threads first."""
    return [(ranks, cores // ranks) for ranks in range(1, cores + 1) if cores % ranks == 0]


def items_a_second(report: Path, case: str) -> float:
    """What the median of the repetitions makes."""
    times = read_json(report).cases[case]
    return times.items / statistics.median(times.wall)


def measured(program: Path, case: str, ranks: int, threads: int, repetitions: int) -> float:
    """Items a second of so many programs at once."""
    with tempfile.TemporaryDirectory() as folder:
        reports = [Path(folder) / f"{rank}.json" for rank in range(ranks)]
        started = [subprocess.Popen([program, "bench", "--device", "cpu", "--filter", f"^{case}$", "--repetitions",
                                     str(repetitions), "--json", report],
                                    env=os.environ | {"OMP_NUM_THREADS": str(threads)}, stdout=subprocess.DEVNULL)
                   for report in reports]
        codes = [process.wait() for process in started]
        if any(codes):
            raise ThreadsError(f"{case}: taugrid bench ended with {max(codes, key=abs)}; expected 0")
        return sum(items_a_second(report, case) for report in reports)


def row(case: str, alone: float, together: list[float]) -> str:
    return " | ".join([f"| `{case}`", f"{alone:.3g}", *(f"{all_items / alone:.2f}" for all_items in together)]) + " |"


def heading(cores: int) -> str:
    columns = [f"{ranks} × {threads}" for ranks, threads in shares(cores)]
    return "\n".join(["| case | items a second, one core | " + " | ".join(columns) + " |",
                      "| --- | ---: | " + " | ".join("---:" for _ in columns) + " |"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "release" / "suite" / "taugrid")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="default: all that there are")
    parser.add_argument("--cases", nargs="+", default=list(CASES), metavar="NAME")
    parser.add_argument("--repetitions", type=int, default=5)
    wanted = parser.parse_args(arguments)
    try:
        if wanted.cores < 2:
            raise ThreadsError(f"--cores is {wanted.cores}; expected two or more, to share out")
        print(heading(wanted.cores), flush=True)
        for case in wanted.cases:
            alone = measured(wanted.program, case, 1, 1, wanted.repetitions)
            together = [measured(wanted.program, case, *share, wanted.repetitions) for share in shares(wanted.cores)]
            print(row(case, alone, together), flush=True)
    except (ThreadsError, InputError) as error:
        print(f"threads: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"threads: {wanted.program}: {error.strerror}; expected taugrid, which jobs/setup.sh builds",
              file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
