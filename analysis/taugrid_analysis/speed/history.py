# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Many calls of the bench by date: where did a case's time change?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.speed import machine
from taugrid_analysis.speed.samples import calls_at

EARLIER = 3  # measurements before the last, to know their spread
WIDTHS = 3.0  # deviations, robustly estimated, that the last must be away
TO_DEVIATION = 1.4826  # of a normal distribution's median absolute deviation
LEVELS = "▁▂▃▄▅▆▇█"
TREND = 24  # most recent values that the table draws


@dataclass(frozen=True)
class Point:
    date: datetime
    seconds: Floats
    version: str

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))


@dataclass(frozen=True)
class Series:
    case: str
    place: tuple[str, ...]  # host, processor, device, threads, ranks
    points: list[Point]  # by date
    invalid: int  # measurements, or such with a time of 0

    @property
    def earlier(self) -> float:
        return float(np.median([point.median for point in self.points[:-1]]))

    @property
    def spread(self) -> float:
        """The spread of the earlier medians, as a part of their median."""
        ratios = np.array([point.median for point in self.points[:-1]]) / self.earlier
        return float(TO_DEVIATION * np.median(np.abs(ratios - 1)))

    def mark(self, tolerance: float) -> str:
        """Whether the last measurement left the earlier ones."""
        if len(self.points) <= EARLIER:
            return "too few"
        ratio = self.points[-1].median / self.earlier
        far = abs(ratio - 1) > WIDTHS * self.spread
        if far and ratio > 1 + tolerance:
            return "slower"
        return "faster" if far and ratio < 1 / (1 + tolerance) else ""


def collect(paths: list[Path], clock: str) -> list[Series]:
    """One a case and machine."""
    calls = [call for path in paths for call in calls_at(path)]
    points: dict[tuple[str, tuple[str, ...]], list[Point]] = {}
    invalid: dict[tuple[str, tuple[str, ...]], int] = {}
    for call in calls:
        date = _date(call.path, call.context["date"])
        for case, times in call.cases.items():
            key = (case, machine.identity(call))
            mine = points.setdefault(key, [])
            seconds = times.wall if clock == "wall" else times.cpu
            if times.failure:
                invalid[key] = invalid.get(key, 0) + 1
            elif seconds is None:
                raise InputError(f"{case} has no CPU times", call.path, "--time wall")
            elif not np.median(seconds) > 0:  # less than its clock tells: no ratio to it
                invalid[key] = invalid.get(key, 0) + 1
            else:
                mine.append(Point(date, seconds, call.context.get("taugrid", "")))
    return [
        Series(case, place, sorted(entries, key=lambda point: point.date), invalid.get((case, place), 0))
        for (case, place), entries in points.items()
        if entries
    ]


def _date(path: Path, text: str) -> datetime:
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"date is {text}", path, "2026-01-31T12:00:00+00:00") from None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def places(series: list[Series]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(curve.place for curve in series))


def table(series: list[Series], tolerance: float) -> Table:
    where = places(series)
    result = Table(
        "history",
        "Medians by date, one line a case" + (" and machine" if len(where) > 1 else ""),
        [
            Column("case"),
            *([Column("machine")] if len(where) > 1 else []),
            Column("calls"),
            Column("trend"),
            Column("earlier ms", 2),
            Column("spread", 1, percent=True),
            Column("last ms", 2),
            Column("ratio", 3),
            Column("date"),
            Column("mark"),
        ],
        notes=[
            f"machine{f' {number}' if len(where) > 1 else ''}: {_place(place)}"
            for number, place in enumerate(where, 1)
        ],
    )
    for curve in series:
        last, several = curve.points[-1], len(curve.points) > 1
        earlier = curve.earlier if several else None
        numbers: list[Value] = [
            None if earlier is None else 1e3 * earlier,
            curve.spread if several else None,
            1e3 * last.median,
            None if earlier is None else last.median / earlier,
        ]
        place: list[Value] = [str(where.index(curve.place) + 1)] if len(where) > 1 else []
        day = f"{last.date:%Y-%m-%d}"
        result.rows.append(
            [curve.case, *place, len(curve.points), _trend(curve), *numbers, day, curve.mark(tolerance)]
        )
    result.notes.append(
        f"mark: the last is more than {100 * tolerance:g} % and {WIDTHS:g} spreads away from the median of"
        f" the earlier ones (at least {EARLIER}); spread: their median deviation × {TO_DEVIATION}."
    )
    wrong = sum(curve.invalid for curve in series)
    if wrong:
        result.notes.append(f"{wrong} measurements left out, INVALID or with a time of 0")
    return result


def _place(place: tuple[str, ...]) -> str:
    host, processor, device, threads, ranks = place
    where = f"{host}, {processor}" + ("" if device in ("cpu", "unknown") else f", {device}")
    return f"{where}, threads {threads}, ranks {ranks}"


def _trend(curve: Series) -> str:
    values = np.array([point.median for point in curve.points[-TREND:]])
    reach = max(float(np.ptp(values)), 0.1 * float(values.min()))  # noise alone does not fill the height
    steps = (values - values.min()) / reach * (len(LEVELS) - 1)
    return "".join(LEVELS[round(float(step))] for step in steps)
