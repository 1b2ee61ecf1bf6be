# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What calls of the bench say of a time, and whether two programs' calls differ.

Repetitions of one call share what the machine did meanwhile, so that they say little of another call: a call
counts as one number, the median of its repetitions, and the spread is that of calls. Times are compared by
their logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.numbers.ratio import of_logs
from taugrid_analysis.numbers.sampling import LEVEL

CALLS = 3  # a side, from which on a spread is known
Interval = tuple[float, float]


def _logs(calls: list[Floats]) -> Floats:
    """The logarithm of each call's median; −∞ for a time of 0."""
    with np.errstate(divide="ignore"):
        return np.log(np.array([np.median(values) for values in calls], dtype=np.float64))


def middle(calls: list[Floats]) -> float:
    """The geometric mean of the calls' medians."""
    if len(calls) == 1:
        return float(np.median(calls[0]))  # to the last digit
    return float(np.exp(np.mean(_logs(calls))))


@dataclass(frozen=True)
class Difference:
    """The ratio of two programs' times, its interval, and p, the chance of one so far from 1 if both were one
    program. None is what too few calls, or a time of 0, do not tell."""

    ratio: float | None
    interval: Interval | None = None
    p: float | None = None


def difference(baseline: list[Floats], current: list[Floats]) -> Difference:
    """Student's t-test of the logarithms, two-sided, with one spread for both sides: under the null
    hypothesis they are one program on one machine."""
    first, second = _logs(baseline), _logs(current)
    if not np.isfinite([*first, *second]).all():
        return Difference(None)
    change = float(np.mean(second) - np.mean(first))
    if min(len(first), len(second)) < CALLS:
        return Difference(float(np.exp(change)))
    freedom = len(first) + len(second) - 2
    squares = np.square(first - first.mean()).sum() + np.square(second - second.mean()).sum()
    error = float(np.sqrt(squares / freedom * (1 / len(first) + 1 / len(second))))
    reach = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
    p = float(2 * stats.t.sf(abs(change) / error, freedom)) if error > 0 else float(change == 0)
    ends = float(np.exp(change - reach)), float(np.exp(change + reach))
    return Difference(float(np.exp(change)), ends, p)


def interval(calls: list[Floats]) -> Interval | None:
    """Student's, of `middle`; None of fewer calls than tell a spread."""
    logs = _logs(calls)
    if len(logs) < CALLS or not np.isfinite(logs).all():
        return None
    estimate = of_logs(logs)
    return estimate.low, estimate.high
