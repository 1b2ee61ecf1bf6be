# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A planted 15 % slow-down is caught and unchanged code is not, on repetitions recorded on a busy machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import recorded_bench

from taugrid_analysis.speed import check, noise
from taugrid_analysis.speed.compare import Rule, lines
from taugrid_analysis.speed.references import Reference

REPETITIONS = 5  # the bench's default
TRIALS = 60  # for each of the three calls and both ways to draw
FALSE_ALARMS = 0.03  # of unchanged code, at most
CAUGHT = 0.95  # of slow-downs by 15 %, at least
PLANTED = 1.15
EVERY = len(recorded_bench.sample(0, "forward"))


def draws(rng: np.random.Generator, number: int, size: int = REPETITIONS) -> list[tuple[Any, Any]]:
    """Two samples of a call: at random, and in stretches, since neighbours in time are alike."""
    found: list[tuple[Any, Any]] = []
    for _ in range(TRIALS):
        mixed = rng.permutation(EVERY)
        found.append((mixed[:size], mixed[size : 2 * size]))
        first, second = rng.integers(0, EVERY - size + 1, 2)
        found.append((slice(first, first + size), slice(second, second + size)))
    return found


def verdicts(case: str, clock: str, factor: float) -> list[str]:
    rng = np.random.default_rng(2)
    return [
        lines(
            recorded_bench.side(case, [(number, before)]),
            recorded_bench.side(case, [(number, after)], factor),
            Rule(clock=clock),
        )[0].verdict
        for number in range(3)
        for before, after in draws(rng, number)
    ]


@pytest.mark.parametrize(
    ("case", "clock"), [("step/standard", "wall"), ("step/standard", "cpu"), ("forward", "cpu")]
)
def test_five_against_five(case: str, clock: str) -> None:
    assert verdicts(case, clock, 1.0).count("slower") <= FALSE_ALARMS * 6 * TRIALS
    assert verdicts(case, clock, PLANTED).count("slower") >= CAUGHT * 6 * TRIALS


def test_wall_times_that_others_stretch_raise_no_alarm() -> None:
    """`forward` took 32 to 88 ms of wall time in one call: too wild to catch 15 %, but no false alarm."""
    assert verdicts("forward", "wall", 1.0).count("slower") <= FALSE_ALARMS * 6 * TRIALS


@pytest.mark.parametrize("clock", ["wall", "cpu"])
@pytest.mark.parametrize("case", recorded_bench.CASES)
def test_unchanged_calls_minutes_apart(case: str, clock: str) -> None:
    """Medians differ by up to 18 %, and the machine's own peak by 32 %: never blamed on the program."""
    whole = [recorded_bench.side(case, [(number, slice(None))]) for number in range(3)]
    found = {
        lines(first, second, Rule(clock=clock))[0].verdict
        for first in whole
        for second in whole
        if first is not second
    }
    assert "slower" not in found


@pytest.mark.parametrize("case", recorded_bench.CASES)
def test_several_calls_in_turn(case: str) -> None:
    """Drift between calls cancels where both sides were measured in turn."""
    first = [(number, slice(0, None, 2)) for number in range(3)]
    second = [(number, slice(1, None, 2)) for number in range(3)]
    for factor, verdict in ((1.0, "same"), (PLANTED, "slower")):
        sides = recorded_bench.side(case, first), recorded_bench.side(case, second, factor)
        assert lines(*sides, Rule(clock="cpu"))[0].verdict == verdict


@pytest.mark.parametrize(("repetitions", "caught"), [(REPETITIONS, 0.8), (noise.FEW, CAUGHT)])
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("case", recorded_bench.CASES)
def test_against_a_reference(case: str, number: int, repetitions: int, caught: float) -> None:
    """One number has no noise of its own, so that five repetitions must all lie beyond 10 %."""
    value = float(np.median(recorded_bench.sample(number, case, "cpu")))
    reference = Reference(case, 1, "seconds", value, slower=0.10, faster=0.25)
    for factor, least, most in ((1.0, 0.0, FALSE_ALARMS), (PLANTED, caught, 1.0)):
        found = []
        for picked, _ in draws(np.random.default_rng(3), number, repetitions):
            values = [factor * recorded_bench.sample(number, case, "cpu")[picked]]
            found.append(check.judge(reference, noise.median(values), noise.median_interval(values)))
        assert least <= found.count("slower") / len(found) <= most


def test_u_test_and_interval() -> None:
    low, high = [np.array([1.0, 2, 3, 4, 5])], [np.array([6.0, 7, 8, 9, 10])]
    assert noise.u_test(low, high) == pytest.approx(noise.least_p(5, 5)) == pytest.approx(2 / 252)
    assert noise.u_test(low, low) > 0.9
    assert noise.u_test([np.ones(5)], [np.ones(5)]) == 1.0
    inside = noise.ratio_interval(low, high)
    assert 6 / 5 <= inside[0] < 8 / 3 < inside[1] <= 10
    assert noise.ratio_interval(low, high) == inside  # the same numbers, the same verdict
    assert noise.median([np.array([1.0]), np.array([2.0, 2.0, 2.0])]) == 1.5  # a call is a call
