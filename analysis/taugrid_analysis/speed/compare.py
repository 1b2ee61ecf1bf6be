# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One case of two measurements: faster, slower, or nothing that the noise would not do alone."""

from __future__ import annotations

from dataclasses import dataclass

from taugrid_analysis.errors import InputError
from taugrid_analysis.numbers.ratio import holm
from taugrid_analysis.numbers.sampling import LEVEL
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.speed import machine, noise
from taugrid_analysis.speed.samples import Side

FIRST = {"invalid": 0, "lost": 1, "slower": 2}  # the rest in the order of the file
FAILS = tuple(FIRST)


@dataclass(frozen=True)
class Rule:
    tolerance: float = 0.05  # of the ratio
    alpha: float = 0.05  # of any false alarm among all cases
    clock: str = "wall"
    common: bool = False  # cases that one side has alone are left out, not lost


@dataclass(frozen=True)
class Line:
    case: str
    verdict: str
    note: str = ""
    baseline: float | None = None  # seconds, geometric means of the calls' medians
    current: float | None = None
    ratio: float | None = None
    interval: noise.Interval | None = None  # of the ratio
    p: float | None = None  # corrected for the number of cases
    cpu: float | None = None  # ratio of the CPU times
    calls: str = ""


def lines(baseline: Side, current: Side, rule: Rule) -> list[Line]:
    names = list(dict.fromkeys(baseline.cases() + current.cases()))
    if rule.common:
        names = [name for name in names if name in baseline.cases() and name in current.cases()]
    if not set(baseline.cases()) & set(current.cases()):
        raise InputError(f"has no case in common with {baseline.path}", current.path, "the same cases")
    unmeasured = {name: _unmeasured(name, baseline, current) for name in names}
    measured = [name for name in names if unmeasured[name] is None]
    changes = {
        name: noise.difference(baseline.seconds(name, rule.clock), current.seconds(name, rule.clock))
        for name in measured
    }
    tested = [name for name in measured if changes[name].p is not None]
    chances = dict(zip(tested, holm([changes[name].p or 0.0 for name in tested]), strict=True))
    compared = [
        unmeasured[name] or _line(name, baseline, current, rule, changes[name], chances.get(name))
        for name in names
    ]
    return sorted(compared, key=lambda line: FIRST.get(line.verdict, len(FIRST)))


def _unmeasured(case: str, baseline: Side, current: Side) -> Line | None:
    """What is wrong or missing on a side; None where all calls of both have times.

    A case that the baseline has and the current side lacks is lost, as is one that some call of a side lacks:
    the bench may have died in it. One that the current side has alone is new.
    """
    for side in (current, baseline):  # a wrong result has no time
        if failure := side.failure(case):
            return Line(case, "invalid", f"in {side.path}: {failure}")
    for side in (current, baseline):
        if 0 < len(side.of(case)) < len(side.calls):
            return Line(case, "lost", f"in {len(side.of(case))} of {len(side.calls)} calls of {side.path}")
    if not current.of(case):
        return Line(case, "lost", f"not in {current.path}; --common compares the cases of both alone")
    return None if baseline.of(case) else Line(case, "new", f"not in {baseline.path}")


def _line(
    case: str, baseline: Side, current: Side, rule: Rule, change: noise.Difference, p: float | None
) -> Line:
    before, after = baseline.seconds(case, rule.clock), current.seconds(case, rule.clock)
    cpu = None
    if baseline.has_cpu(case) and current.has_cpu(case):
        cpu = noise.difference(baseline.seconds(case, "cpu"), current.seconds(case, "cpu")).ratio
    verdict, remarks = judge(change.ratio, p, rule), []
    if change.ratio is None:
        remarks.append("a time of 0: less than its clock tells")
    elif p is None:
        remarks.append(f"needs {noise.CALLS} calls a side")
    elif verdict in ("slower", "faster"):
        excused, remarks = _excuse(verdict == "slower", baseline, current, rule, change.ratio, cpu)
        verdict = "unclear" if excused else verdict
    return Line(
        case=case,
        verdict=verdict,
        note="; ".join(remarks),
        baseline=noise.middle(before),
        current=noise.middle(after),
        ratio=change.ratio,
        interval=change.interval,
        p=p,
        cpu=cpu,
        calls=f"{len(before)}, {len(after)}",
    )


def judge(ratio: float | None, p: float | None, rule: Rule) -> str:
    """Beyond the tolerance and beyond the calls' noise; `unclear` is beyond the first alone, or unknown."""
    if ratio is None:
        return "unclear"
    if 1 / (1 + rule.tolerance) <= ratio <= 1 + rule.tolerance:
        return "same"
    if p is None or not p < rule.alpha:
        return "unclear"
    return "slower" if ratio > 1 else "faster"


def _excuse(
    slower: bool, baseline: Side, current: Side, rule: Rule, ratio: float, cpu: float | None
) -> tuple[bool, list[str]]:
    """Whether the machine, not the program, may have changed the time; and what is to be said of it."""
    worse, better = (current, baseline) if slower else (baseline, current)
    change, used = (ratio, cpu) if slower else (1 / ratio, 1 / cpu if cpu else None)
    remarks = []
    waited = rule.clock == "wall" and used is not None and used <= 1 + rule.tolerance
    if waited:
        remarks.append("it waited: its CPU time did not grow" if slower else "the baseline waited")
    loss = machine.loss(better, worse)
    explained = change / loss <= 1 + rule.tolerance
    if explained:
        remarks.append(f"the machine itself was {loss:.2f} times {'slower' if slower else 'faster'}")
    return explained or (waited and any(map(machine.is_busy, worse.calls))), remarks


def table(baseline: Side, current: Side, rule: Rule) -> tuple[Table, bool]:
    """Returns the table, and whether something failed."""
    compared = lines(baseline, current, rule)
    clock = "wall" if rule.clock == "wall" else "CPU"
    result = Table(
        "compare",
        f"{_title(current)} against {_title(baseline)}: {clock} time",
        [
            Column("case"),
            Column("baseline ms", 2),
            Column("current ms", 2),
            Column("ratio", 3),
            Column("from", 3),
            Column("to", 3),
            Column("p", 2, significant=True),
            Column("CPU ratio", 3),
            Column("calls"),
            Column("verdict"),
            Column("note"),
        ],
    )
    for line in compared:
        low, high = line.interval or (None, None)
        times: list[Value] = [None if s is None else 1e3 * s for s in (line.baseline, line.current)]
        result.rows.append(
            [
                line.case,
                *times,
                line.ratio,
                low,
                high,
                line.p,
                line.cpu,
                line.calls,
                line.verdict,
                line.note,
            ]
        )
    bad = [line for line in compared if line.verdict in FAILS]
    result.notes += machine.notes(baseline, current)
    result.notes.append(
        f"slower: ratio above {1 + rule.tolerance:g}, also with the machine's own loss taken out, and p below"
        f" {rule.alpha:g} (t-test of the calls' medians, corrected for all cases by Holm). from … to:"
        f" {100 * LEVEL:g} % interval of this ratio alone. unclear: beyond the tolerance, but within"
        " noise, or of too few calls, or the machine may have done it."
    )
    unclear = sum(line.verdict == "unclear" for line in compared)
    few = min(len(baseline.calls), len(current.calls)) < noise.CALLS
    said = ", ".join(f"{line.case} {line.verdict}" for line in bad)
    result.notes.append(
        (f"verdict: FAILED: {said}" if bad else "verdict: nothing is lost, and nothing slower beyond noise")
        + (f"; {unclear} unclear, measure again" if unclear else "")
        + (f": {noise.CALLS} calls a side, in turn, or nothing can fail" if few else "")
    )
    return result, bool(bad)


def _title(side: Side) -> str:
    calls = side.calls
    return calls[0].title if len(calls) == 1 else f"{side.path} ({len(calls)} calls)"
