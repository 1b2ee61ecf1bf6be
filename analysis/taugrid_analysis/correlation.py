# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Pearson's and Spearman's correlation, with bootstrap intervals over the pairs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import stats

from taugrid_analysis.records import Array, Floats

LEAST = 6  # pairs; below that a correlation says nothing
RESAMPLES = 2000
SEED = 0
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float


NOTHING = Estimate(float("nan"), float("nan"), float("nan"))


def pearson(x: Array, y: Array) -> float:
    return _alone(x, y, ranks=False)


def rank_correlation(x: Array, y: Array) -> float:
    """Spearman's, with mean ranks for ties; NaN where one side is constant."""
    return _alone(x, y, ranks=True)


def _alone(x: Array, y: Array, ranks: bool) -> float:
    a, b = _finite(x, y)
    return float(_statistic(a, b, ranks)) if a.size >= 3 and _varies(a) and _varies(b) else float("nan")


def estimate(x: Array, y: Array, ranks: bool) -> Estimate:
    """With a percentile interval; NaN for few pairs or where one side is constant."""
    a, b = _finite(x, y)
    if a.size < LEAST or not _varies(a) or not _varies(b):
        return NOTHING
    drawn = np.random.default_rng(SEED).integers(0, a.size, (RESAMPLES, a.size))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a resample may be constant: it is left out
        values = _statistic(a[drawn], b[drawn], ranks)
    low, high = np.nanquantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(_statistic(a, b, ranks)), float(low), float(high))


def usable(x: Array, y: Array) -> int:
    """Pairs with both numbers."""
    return len(_finite(x, y)[0])


def _finite(x: Array, y: Array) -> tuple[Floats, Floats]:
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    keep = np.isfinite(a) & np.isfinite(b)
    return a[keep], b[keep]


def _varies(values: Floats) -> bool:
    """More than by rounding."""
    return bool(np.ptp(values) > 1e-12 * np.abs(values).max())


def _statistic(x: Floats, y: Floats, ranks: bool) -> Floats:
    """Along the last axis."""
    if ranks:
        x, y = stats.rankdata(x, axis=-1), stats.rankdata(y, axis=-1)
    return np.asarray(stats.pearsonr(x, y, axis=-1).statistic)
