# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Medians, their noise from repetitions, and the test whether two samples differ."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from taugrid_analysis.records import Floats

FEW = 9  # repetitions a side, below which the U test sees only gross differences
LEVEL = 0.95  # of the intervals
RESAMPLES = 2000
Interval = tuple[float, float]


def median(calls: list[Floats]) -> float:
    """Of the calls' medians: repetitions of one call share what the machine did meanwhile."""
    return float(np.median([np.median(values) for values in calls]))


def count(calls: list[Floats]) -> int:
    return sum(len(values) for values in calls)


def ratio_interval(baseline: list[Floats], current: list[Floats]) -> Interval:
    """Bootstrap percentiles of median(current) / median(baseline)."""
    rng = np.random.default_rng(0)  # the same file gives the same verdict
    return _percentiles(_medians(current, rng) / _medians(baseline, rng))


def median_interval(calls: list[Floats]) -> Interval:
    return _percentiles(_medians(calls, np.random.default_rng(0)))


def _medians(calls: list[Floats], rng: np.random.Generator) -> Floats:
    """Draws calls, and in each its repetitions."""
    within = np.stack(
        [np.median(rng.choice(values, (RESAMPLES, len(values))), axis=1) for values in calls], axis=1
    )
    drawn = rng.integers(0, len(calls), (RESAMPLES, len(calls)))
    return np.asarray(np.median(np.take_along_axis(within, drawn, axis=1), axis=1), dtype=np.float64)


def _percentiles(values: Floats) -> Interval:
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def u_test(baseline: list[Floats], current: list[Floats]) -> float:
    """Mann-Whitney, two-sided: chance of so uneven ranks if both came from one distribution."""
    first, second = np.concatenate(baseline), np.concatenate(current)
    if np.ptp(np.concatenate([first, second])) == 0:
        return 1.0
    return float(stats.mannwhitneyu(first, second, alternative="two-sided").pvalue)


def least_p(first: int, second: int) -> float:
    """What the U test gives at most separation."""
    return 2 / math.comb(first + second, first)
