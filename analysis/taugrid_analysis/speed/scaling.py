# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Strong and weak scaling of finished runs.

Two times of a run are compared: its wall time, from the first start to results.h5 in whole seconds, pauses of
an interrupted run included; and the longest rank's sum of unit seconds, without start, input and output.
With T(r) at r ranks and the fewest ranks r0:
    strong (the same configuration): speed-up T(r0)/T(r), efficiency that · r0/r;
    weak (work W grown with the ranks): efficiency W(r)/W(r0) · r0/r · T(r0)/T(r), which is T(r0)/T(r) where
    the work grew as the ranks did. W is the units' model flops, in results.h5.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.speed.runs import Run, differences, read_run

PAUSE = 1.5  # wall time over the longest rank's units, above which the run waited for something else
UNEVEN = 0.1  # of the work a rank


@dataclass(frozen=True)
class Point:
    """Runs at one number of ranks; medians over them."""

    runs: list[Run]

    @property
    def ranks(self) -> int:
        return self.runs[0].ranks

    @property
    def wall(self) -> float:
        return float(np.median([run.wall for run in self.runs]))

    @property
    def longest(self) -> float:
        return float(np.median([run.longest for run in self.runs]))

    @property
    def rank_seconds(self) -> float:
        return float(np.median([run.rank_seconds for run in self.runs]))

    @property
    def flops(self) -> float:
        return min(run.flops for run in self.runs)

    @property
    def balance(self) -> float:
        """The mean rank's part of the longest."""
        return float(np.median([np.mean(run.by_rank()) / run.longest for run in self.runs]))

    @property
    def hosts(self) -> int:
        return max(len(run.hosts) for run in self.runs)


def collect(paths: list[Path], weak: bool) -> list[Point]:
    """Orders runs by ranks, and refuses what cannot be compared."""
    runs = sorted((read_run(path) for path in paths), key=lambda run: run.ranks)
    by_ranks: dict[int, list[Run]] = {}
    for run in runs:
        by_ranks.setdefault(run.ranks, []).append(run)
    if len(by_ranks) < 2:
        raise InputError(f"all runs have {runs[0].ranks} ranks", runs[0].path, "runs at two numbers of ranks")
    for mine in by_ranks.values() if weak else [runs]:
        for run in mine[1:]:
            if other := differences(mine[0], run):
                hint = "the same at the same ranks" if weak else "the same configuration, or --weak"
                raise InputError(f"differs from {mine[0].path} in {', '.join(other)}", run.path, hint)
    return [Point(mine) for mine in by_ranks.values()]


def speed_ups(points: list[Point], name: str) -> list[float]:
    """T(r0)/T(r) of `wall` or `longest`."""
    times = [float(getattr(point, name)) for point in points]
    return [times[0] / time for time in times]


def works(points: list[Point], weak: bool) -> list[float]:
    """W(r)/W(r0). Where a run does not say, the work is taken to have grown as the ranks did."""
    if not weak:
        return [1.0 for _ in points]
    if all(point.flops > 0 for point in points):
        return [point.flops / points[0].flops for point in points]
    return [point.ranks / points[0].ranks for point in points]


def efficiencies(points: list[Point], name: str, weak: bool) -> list[float]:
    rows = zip(points, speed_ups(points, name), works(points, weak), strict=True)
    return [work * ratio * points[0].ranks / point.ranks for point, ratio, work in rows]


def table(points: list[Point], weak: bool) -> Table:
    return _weak(points) if weak else _strong(points)


def _heads() -> list[Column]:
    return [Column("ranks"), Column("hosts"), Column("runs")]


def _strong(points: list[Point]) -> Table:
    result = Table(
        "strong",
        "Strong scaling: one configuration",
        [
            *_heads(),
            Column("wall s", 1),
            Column("speed-up", 2),
            Column("efficiency", 1, percent=True),
            Column("longest rank s", 1),
            Column("units' speed-up", 2),
            Column("units' efficiency", 1, percent=True),
            Column("balance", 1, percent=True),
            Column("rank-seconds", 1),
        ],
        notes=_notes(points),
    )
    walls, units = speed_ups(points, "wall"), speed_ups(points, "longest")
    parts = efficiencies(points, "wall", False), efficiencies(points, "longest", False)
    for index, point in enumerate(points):
        head: list[Value] = [point.ranks, point.hosts, len(point.runs)]
        wall: list[Value] = [point.wall, walls[index], parts[0][index]]
        longest: list[Value] = [point.longest, units[index], parts[1][index]]
        result.rows.append([*head, *wall, *longest, point.balance, point.rank_seconds])
    result.notes.append(
        "rank-seconds: of all units, more where ranks slow each other down. balance: mean rank / longest."
    )
    return result


def _weak(points: list[Point]) -> Table:
    result = Table(
        "weak",
        "Weak scaling: work grown with the ranks",
        [
            *_heads(),
            Column("wall s", 1),
            Column("efficiency", 1, percent=True),
            Column("longest rank s", 1),
            Column("units' efficiency", 1, percent=True),
            Column("balance", 1, percent=True),
            Column("units"),
            Column("Tflop", 3, significant=True),
            Column("rank-seconds", 1),
            Column("relative", 2),
            Column("differs in"),
        ],
        notes=_notes(points),
    )
    parts = efficiencies(points, "wall", True), efficiencies(points, "longest", True)
    loads = [p.rank_seconds / work for p, work in zip(points, works(points, True), strict=True)]
    for index, point in enumerate(points):
        head: list[Value] = [point.ranks, point.hosts, len(point.runs)]
        changed = [key for key in differences(points[0].runs[0], point.runs[0]) if key != "units"]
        wall: list[Value] = [point.wall, parts[0][index], point.longest, parts[1][index], point.balance]
        flops = point.flops / 1e12 if point.flops > 0 else None
        work: list[Value] = [len(point.runs[0].units), flops, point.rank_seconds, loads[index] / loads[0]]
        result.rows.append([*head, *wall, *work, ", ".join(changed)])
    ratios = [load / loads[0] for load in loads]
    off = [str(point.ranks) for point, r in zip(points, ratios, strict=True) if abs(r - 1) > UNEVEN]
    if off:
        result.notes.append(
            f"at {', '.join(off)} ranks the same work takes over {100 * UNEVEN:g} % more or less rank-seconds"
            f" than at {points[0].ranks} (relative): the ranks slow each other down, or the kinds of"
            " work grew unevenly."
        )
    if any(point.flops == 0 for point in points):
        result.notes.append(
            "no model_flops in some results.h5: the work is taken to have grown as the ranks did."
        )
    return result


def _notes(points: list[Point]) -> list[str]:
    notes = [
        "wall: from the first start to results.h5, pauses included; longest rank: seconds of its units."
        " Relative to the fewest ranks."
    ]
    for run in (run for point in points for run in point.runs):
        if run.wall > PAUSE * run.longest:
            notes.append(
                f"{run.path}: wall time is {run.wall / run.longest:.1f} times the longest rank's units:"
                " interrupted and continued, or start, input and output take long."
            )
    if not all(run.config for point in points for run in point.runs):
        notes.append(
            "no config.toml beside some results.h5: only model, tasks, seed, threads, units compared."
        )
    return notes
