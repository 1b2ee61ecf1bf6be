# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One case of two measurements: faster, slower, or nothing that the noise would not do alone."""

from __future__ import annotations

from dataclasses import dataclass

from taugrid_analysis.errors import InputError
from taugrid_analysis.speed import machine, noise
from taugrid_analysis.speed.samples import Side
from taugrid_analysis.text_table import Column, Table, Value

FIRST = {"invalid": 0, "slower": 1}  # the rest in the order of the file
FAILS = tuple(FIRST)


@dataclass(frozen=True)
class Rule:
    tolerance: float = 0.05  # of the ratio of medians
    alpha: float = 0.05  # of the U test
    clock: str = "wall"


@dataclass(frozen=True)
class Line:
    case: str
    verdict: str
    note: str = ""
    baseline: float | None = None  # seconds, medians
    current: float | None = None
    interval: noise.Interval | None = None  # of their ratio
    p: float | None = None
    cpu: float | None = None  # ratio of the CPU times
    repetitions: str = ""

    @property
    def ratio(self) -> float | None:
        return self.current / self.baseline if self.current and self.baseline else None


def lines(baseline: Side, current: Side, rule: Rule) -> list[Line]:
    names = list(dict.fromkeys(baseline.cases() + current.cases()))
    if not set(baseline.cases()) & set(current.cases()):
        raise InputError(f"has no case in common with {baseline.path}", current.path, "the same cases")
    found = [_line(name, baseline, current, rule) for name in names]
    return sorted(found, key=lambda line: FIRST.get(line.verdict, len(FIRST)))


def _line(case: str, baseline: Side, current: Side, rule: Rule) -> Line:
    for side in (current, baseline):  # a wrong result has no time
        if failure := side.failure(case):
            return Line(case, "invalid", f"in {side.path}: {failure}")
    for side, other in ((baseline, current), (current, baseline)):
        if not side.of(case):
            return Line(case, "only in one", f"in {other.path}")
    before, after = baseline.seconds(case, rule.clock), current.seconds(case, rule.clock)
    interval, p = noise.ratio_interval(before, after), noise.u_test(before, after)
    counts = noise.count(before), noise.count(after)
    ratio = noise.median(after) / noise.median(before)
    verdict = judge(ratio, interval, p, rule)
    cpu = None
    if baseline.has_cpu(case) and current.has_cpu(case):
        cpu = noise.median(current.seconds(case, "cpu")) / noise.median(baseline.seconds(case, "cpu"))
    remarks = []
    if min(counts) < noise.FEW:
        remarks.append(f"fewer than {noise.FEW} repetitions")
    if noise.least_p(*counts) >= rule.alpha:
        remarks.append(f"too few for p < {rule.alpha:g}")
    if verdict == "slower":
        drift = machine.loss(baseline, current)
        waited = rule.clock == "wall" and cpu is not None and cpu <= 1 + rule.tolerance
        if waited:
            remarks.append("it waited: its CPU time did not grow")
        if ratio <= drift:
            remarks.append(f"the machine itself was {drift:.2f} times slower")
        if ratio <= drift or (waited and any(map(machine.is_busy, current.calls))):
            verdict = "unclear"
    return Line(
        case=case,
        verdict=verdict,
        note="; ".join(remarks),
        baseline=noise.median(before),
        current=noise.median(after),
        interval=interval,
        p=p,
        cpu=cpu,
        repetitions=f"{counts[0]}, {counts[1]}",
    )


def judge(ratio: float, interval: noise.Interval, p: float, rule: Rule) -> str:
    """Beyond the tolerance and beyond the repetitions' noise; `unclear` is beyond the first alone."""
    if 1 / (1 + rule.tolerance) <= ratio <= 1 + rule.tolerance:
        return "same"
    beyond = interval[0] > 1 or interval[1] < 1
    if not (p < rule.alpha and beyond):
        return "unclear"
    return "slower" if ratio > 1 else "faster"


def table(baseline: Side, current: Side, rule: Rule) -> tuple[Table, bool]:
    """And whether something failed."""
    found = lines(baseline, current, rule)
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
            Column("runs"),
            Column("verdict"),
            Column("note"),
        ],
    )
    for line in found:
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
                line.repetitions,
                line.verdict,
                line.note,
            ]
        )
    bad = [line for line in found if line.verdict in FAILS]
    result.notes += machine.notes(baseline, current)
    result.notes.append(
        f"slower: ratio above {1 + rule.tolerance:g}, U test's p below {rule.alpha:g}, and 1 outside"
        f" from … to ({100 * noise.LEVEL:g} % of bootstrapped ratios). unclear: the first alone,"
        " or the machine was slower by as much, or so busy that the case waited."
    )
    said = ", ".join(f"{line.case} {line.verdict}" for line in bad)
    unclear = sum(line.verdict == "unclear" for line in found)
    result.notes.append(
        (f"verdict: FAILED: {said}" if bad else "verdict: nothing is slower beyond noise")
        + (f"; {unclear} unclear, measure again" if unclear else "")
    )
    return result, bool(bad)


def _title(side: Side) -> str:
    calls = side.calls
    return calls[0].title if len(calls) == 1 else f"{side.path} ({len(calls)} calls)"
