# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One side of a comparison: the calls of `taugrid bench --json`, or the runs, that lie at a path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from taugrid_analysis.errors import InputError
from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.speed.bench_json import Call, Times, read_json
from taugrid_analysis.speed.runs import read_run

CLOCKS = ("wall", "cpu")


@dataclass(frozen=True)
class Side:
    """One program on one machine: a call of the bench, or several that count as one sample."""

    path: Path
    calls: list[Call]

    @property
    def ranks(self) -> int:
        return self.calls[0].ranks

    def cases(self) -> list[str]:
        return list(dict.fromkeys(name for call in self.calls for name in call.cases))

    def of(self, case: str) -> list[Times]:
        return [call.cases[case] for call in self.calls if case in call.cases]

    def failure(self, case: str) -> str:
        """Why the bench marked the case INVALID; empty where it did not."""
        return next((times.failure for times in self.of(case) if times.failure), "")

    def has_cpu(self, case: str) -> bool:
        return all(times.cpu is not None for times in self.of(case))

    def seconds(self, case: str, clock: str) -> list[Floats]:
        """One array a call."""
        arrays = [times.wall if clock == "wall" else times.cpu for times in self.of(case)]
        known = [values for values in arrays if values is not None]
        if len(known) < len(arrays):
            raise InputError(f"{case} has no CPU times", self.path, "--time wall")
        return known

    def about(self, key: str) -> str:
        values = dict.fromkeys(call.context[key] for call in self.calls if key in call.context)
        return " | ".join(values) or "unknown"


def calls_at(path: Path) -> list[Call]:
    """PATH: a bench JSON, a folder of them, a run folder, its results.h5, or a folder of run folders."""
    expected = "a file of `taugrid bench --json`, a folder of them, or finished runs"
    if not path.exists():
        raise InputError("does not exist", path, expected)
    files = [path]
    if path.is_dir() and not (path / "results.h5").is_file():
        files = sorted(path.glob("*.json")) or sorted(path.glob("*/results.h5"))
        if not files:
            raise InputError("holds no *.json and no results.h5", path, expected)
    return [
        read_run(file).as_call() if file.is_dir() or file.suffix == ".h5" else read_json(file)
        for file in files
    ]


def read(path: Path) -> Side:
    calls = calls_at(path)
    ranks = sorted({call.ranks for call in calls})
    if len(ranks) > 1:
        raise InputError(f"mixes {' and '.join(map(str, ranks))} ranks", path, "one number of ranks")
    return Side(path, calls)
