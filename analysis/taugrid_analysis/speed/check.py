# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A measurement against the references of its system."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.numbers.sampling import LEVEL
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.speed import machine, noise, references
from taugrid_analysis.speed.bench_json import Times
from taugrid_analysis.speed.references import Reference, System
from taugrid_analysis.speed.samples import Side

FAILS = ("invalid", "slower", "suspicious")


def system(path: Path, side: Side, name: str | None) -> System:
    systems = references.read(path)
    chosen = references.choose(systems, side, name)
    names = ", ".join(entry.name for entry in systems)
    if chosen is None and name is not None:
        raise InputError(f"has no system {name}", path, f"one of {names}")
    if chosen is None:
        here = f"host {side.about('host_name')}, processor {side.about('processor')}"
        raise InputError(
            f"no system matches {side.path} ({here}, threads {side.about('threads')})",
            path,
            f"--system with one of {names}, or a new one by --write-references",
        )
    return chosen


def samples(side: Side, case: str, quantity: str, clock: str) -> list[Floats]:
    """One array a call, of a quantity that a reference may have; NaN where the bench does not state it."""
    seconds = side.seconds(case, clock)
    if quantity == "seconds":
        return seconds
    with np.errstate(divide="ignore"):  # a CPU time may be less than its clock tells
        return [_rate(times, quantity) / values for times, values in zip(side.of(case), seconds, strict=True)]


def _rate(times: Times, quantity: str) -> float:
    """What is done in a repetition: items, or seconds that the peak would need."""
    return times.items if quantity == "throughput" else times.share * float(np.median(times.wall))


def judge(reference: Reference, middle: float, interval: noise.Interval | None) -> str:
    """Worse than tolerated only where the whole interval is, which fewer than three calls do not have."""
    sign = reference.sign
    if reference.bound is not None and sign * (middle - reference.bound) > 0:
        return "suspicious"
    if sign * (middle - reference.best) > 0:
        return "faster"
    if sign * (middle - reference.worst) >= 0:
        return "same"
    if interval is None:
        return "unclear"
    nearest = max(sign * end for end in interval)
    return "slower" if nearest < sign * reference.worst else "unclear"


def table(side: Side, chosen: System) -> tuple[Table, bool]:
    """Returns the table, and whether something failed."""
    known = {reference.case: reference for reference in chosen.references if reference.ranks == side.ranks}
    if not set(known) & set(side.cases()):
        raise InputError(
            f"system {chosen.name} has no reference for its cases at ranks = {side.ranks}",
            side.path,
            "a measurement of cases that the references name",
        )
    result = Table(
        "check",
        f"{side.path} against system {chosen.name}, ranks {side.ranks}",
        [
            Column("case"),
            Column("quantity"),
            Column("time"),
            Column("reference", 4, significant=True),
            Column("worst", 4, significant=True),
            Column("best", 4, significant=True),
            Column("bound", 4, significant=True),
            Column("measured", 4, significant=True),
            Column("from", 4, significant=True),
            Column("to", 4, significant=True),
            Column("calls"),
            Column("verdict"),
            Column("note"),
        ],
    )
    failed = []
    for case in dict.fromkeys([*side.cases(), *known]):
        row, verdict = _row(side, case, known.get(case))
        result.rows.append(row)
        if verdict in FAILS:
            failed.append(f"{case} {verdict}")
    result.rows.sort(key=lambda row: row[-2] not in FAILS)
    result.notes += machine.busy([side])
    result.notes.append(
        f"slower: measured, the mean of the calls' medians, and its {100 * LEVEL:g} % interval, from …"
        " to, are beyond worst; unclear: measured alone. faster: beyond best, renew the reference."
        " suspicious: beyond bound."
    )
    unclear = sum(row[-2] == "unclear" for row in result.rows)
    few = len(side.calls) < noise.CALLS
    result.notes.append(
        (f"verdict: FAILED: {', '.join(failed)}" if failed else "verdict: nothing is slower beyond noise")
        + (f"; {unclear} unclear, measure again" if unclear else "")
        + (f": {noise.CALLS} calls, or nothing can be slower" if few else "")
    )
    return result, bool(failed)


def _row(side: Side, case: str, reference: Reference | None) -> tuple[list[Value], str]:
    if failure := side.failure(case):  # a wrong result has no time
        return _line(case, reference, [None] * 3, "", "invalid", failure), "invalid"
    if not side.of(case):
        return _line(case, reference, [None] * 3, "", "not measured", ""), "not measured"
    if reference is None:
        return _line(case, None, [None] * 3, "", "no reference", ""), "no reference"
    values = samples(side, case, reference.quantity, reference.time)
    if np.isnan(np.concatenate(values)).any():
        raise InputError(f"{case} has no {reference.quantity}", side.path, "a reference in seconds")
    middle, interval = noise.middle(values), noise.interval(values)
    verdict = judge(reference, middle, interval)
    note = f"needs {noise.CALLS} calls" if verdict == "unclear" and interval is None else ""
    ends = interval or (None, None)
    return _line(case, reference, [middle, *ends], str(len(values)), verdict, note), verdict


def _line(
    case: str, reference: Reference | None, measured: list[Value], calls: str, verdict: str, note: str
) -> list[Value]:
    expected: list[Value] = ["", "", None, None, None, None]
    if reference is not None:
        expected = [reference.quantity, reference.time, reference.value]
        expected += [reference.worst, reference.best, reference.bound]
    return [case, *expected, *measured, calls, verdict, note]
