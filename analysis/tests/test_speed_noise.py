# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""How often unchanged code is called slower, and a planted slow-down found, across recorded calls.

The calls follow each other on two cores that other jobs kept busy. A comparison takes them in turn, one for
the baseline and one for the current program, and looks at all six cases, as `compare` is documented.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
import recorded_bench
from scipy import stats

from taugrid_analysis.numbers.ratio import holm
from taugrid_analysis.numbers.sampling import LEVEL
from taugrid_analysis.speed import check, noise
from taugrid_analysis.speed.compare import Rule, lines
from taugrid_analysis.speed.references import Reference

# docs/slower.md promises these.
FALSE_ALARMS = 0.03  # of comparisons of unchanged code, at most, that call any case slower
FOUND = {3: 0.5, 5: 0.8}  # of cases slower by PLANTED in CPU time, at least, by the calls a side
SEEN = {3: 0.8, 5: 0.95}  # of comparisons, at least, that call some case slower where all are
PLANTED = 1.15

Sides = tuple[list[int], list[int]]


def in_turn(calls: int, stride: int = 1) -> Iterator[Sides]:
    """Every start, both ways round; `stride` leaves calls out between, for calls that are further apart."""
    for start in range(len(recorded_bench.many()) - (2 * calls - 1) * stride):
        every = [start + stride * number for number in range(2 * calls)]
        yield every[::2], every[1::2]
        yield every[1::2], every[::2]


def slower(sides: Sides, clock: str, factor: float = 1.0, machine: float = 1.0) -> list[str]:
    before, after = recorded_bench.of_many(sides[0]), recorded_bench.of_many(sides[1], factor, machine)
    return [line.case for line in lines(before, after, Rule(clock=clock)) if line.verdict == "slower"]


@pytest.mark.parametrize("clock", ["wall", "cpu"])
@pytest.mark.parametrize(("calls", "stride"), [(3, 1), (3, 3), (5, 1), (5, 2), (8, 1)])
def test_unchanged_code_is_called_slower_in_few_comparisons(calls: int, stride: int, clock: str) -> None:
    alarms = [bool(slower(sides, clock)) for sides in in_turn(calls, stride)]
    assert len(alarms) >= 80
    assert np.mean(alarms) <= FALSE_ALARMS


@pytest.mark.parametrize("calls", FOUND)
def test_a_planted_slow_down_is_found(calls: int) -> None:
    every = list(in_turn(calls))
    slower_cases = [slower(sides, "cpu", PLANTED) for sides in every]
    cases = recorded_bench.many()[0].cases
    assert sum(map(len, slower_cases)) >= FOUND[calls] * len(every) * len(cases)
    assert np.mean([bool(some) for some in slower_cases]) >= SEEN[calls]


@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_one_call_a_side_says_at_most_unclear(clock: str) -> None:
    """Neighbours in time, a slow-down of half as much again among them."""
    verdicts: Counter[str] = Counter()
    for number in range(len(recorded_bench.many()) - 2):
        for calls in (1, 2):
            after = recorded_bench.of_many(range(number + 1, number + 2), 1.5)
            compared = lines(recorded_bench.of_many(range(number, number + calls)), after, Rule(clock=clock))
            assert all(line.p is None and line.interval is None for line in compared)
            verdicts.update(line.verdict for line in compared)
            assert all("needs 3 calls a side" in line.note for line in compared if line.verdict == "unclear")
    assert set(verdicts) == {"same", "unclear"} and verdicts["unclear"] > verdicts["same"]


@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_a_machine_that_lost_8_percent_is_no_slower_program(clock: str) -> None:
    """A program that is slower by as much is found to be, in CPU time, in many comparisons."""
    every = list(in_turn(3))
    blamed = np.mean([bool(slower(sides, clock, machine=1.08)) for sides in every])
    program = np.mean([bool(slower(sides, clock, factor=1.08)) for sides in every])
    assert blamed <= 0.1 and (clock == "wall" or program >= 4 * blamed)


@pytest.mark.parametrize("case", ["forward", "step/standard"])
def test_against_a_reference(case: str) -> None:
    """Whose value is the mean of all calls: unchanged code is not slower, 25 % more is."""
    every = [recorded_bench.many()[number].cases[case].cpu for number in range(len(recorded_bench.many()))]
    known = [values for values in every if values is not None]
    reference = Reference(case, 1, "seconds", noise.middle(known), slower=0.10, faster=0.25, time="cpu")
    for factor, calls, least, most in ((1.0, 3, 0.0, 0.03), (1.25, 5, 0.95, 1.0), (1.5, 1, 0.0, 0.0)):
        verdicts = []
        for start in range(len(known) - calls + 1):
            some = [factor * values for values in known[start : start + calls]]
            verdicts.append(check.judge(reference, noise.middle(some), noise.interval(some)))
        assert least <= verdicts.count("slower") / len(verdicts) <= most


def test_difference_is_students() -> None:
    rng = np.random.default_rng(0)
    first, second = [rng.lognormal(size=(count, 7)) for count in (4, 3)]
    difference = noise.difference(list(first), list(second))
    logs = [np.log(np.median(side, axis=1)) for side in (first, second)]
    expected = stats.ttest_ind(logs[1], logs[0])
    low, high = expected.confidence_interval(LEVEL)
    assert difference.p == pytest.approx(expected.pvalue)
    assert difference.interval == pytest.approx((np.exp(low), np.exp(high)))
    assert difference.ratio == pytest.approx(np.exp(logs[1].mean() - logs[0].mean()))
    alone = stats.t.interval(LEVEL, 3, logs[0].mean(), stats.sem(logs[0]))
    assert noise.interval(list(first)) == pytest.approx(tuple(np.exp(alone)))


def test_calls_without_spread_or_time() -> None:
    def calls(*medians: float) -> list[np.ndarray]:
        return [np.array([value, value, 9.0]) for value in medians]

    same, longer = (
        noise.difference(calls(1, 1, 1), calls(1, 1, 1)),
        noise.difference(calls(1, 1, 1), calls(2, 2, 2)),
    )
    assert (same.ratio, same.p, same.interval) == (1, 1, (1, 1))
    assert longer.p == 0 and longer.ratio == pytest.approx(2) and longer.interval == pytest.approx((2, 2))
    assert noise.difference(calls(0, 1, 1), calls(1, 1, 1)) == noise.Difference(None)
    assert noise.difference(calls(1, 1), calls(3, 3, 3)).p is None
    assert noise.middle(calls(1, 4)) == pytest.approx(2) and noise.middle(calls(0, 4)) == 0
    assert noise.interval(calls(1, 4)) is None and noise.interval(calls(0, 1, 4)) is None


def test_holm() -> None:
    """The example's p, by hand: 0.005·4, 0.01·3, max(0.03·2, …), max(0.04·1, the one before)."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1, 1] and holm([]) == []
