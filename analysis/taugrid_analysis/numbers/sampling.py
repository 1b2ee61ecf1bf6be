# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Standard errors that come from the finite number of evaluation points, and tests of paired differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from taugrid_analysis.numbers.arrays import Array, Floats

LEVEL = 0.95
POWER = 0.8  # of the sample sizes that are asked for
NORMAL = float(stats.norm.ppf((1 + LEVEL) / 2))  # 1.96: half a 95 % interval in standard errors


def binomial(share: Array | float, points: Array | int) -> Floats:
    """√(p(1 − p)/N) of a share of N points; NaN without points.

    No share is taken nearer to 0 or 1 than 1/(N + 2), the rule of succession: none of 20 points wrong is no
    proof that none ever is.
    """
    counts = np.asarray(points, dtype=float)
    known = counts > 0
    safe = np.where(known, counts, 1.0)
    p = np.clip(np.asarray(share, dtype=float), 1 / (safe + 2), 1 - 1 / (safe + 2))
    return np.asarray(np.where(known, np.sqrt(p * (1 - p) / safe), np.nan))


def of_mean(errors: Array, axis: int | None = None) -> Floats:
    """The error of a mean of independent numbers, such as accuracies on different tasks' points."""
    values = np.asarray(errors, dtype=float)
    count = values.size if axis is None else values.shape[axis]
    return np.asarray(np.sqrt((values**2).sum(axis=axis)) / max(count, 1))


def of_ratio(above: float, below: float, above_error: float, below_error: float) -> float:
    """The error of above/below, of independent samples, to first order."""
    if not below > 0:
        return float("nan")
    return float(np.hypot(above_error / below, above * below_error / below**2))


def f1(right: Array, positive: Array) -> tuple[float, float]:
    """F1 of the positive class among two, and its standard error, from which points were right.

    Of two classes a wrong point was taken for the other one, so that F1 = 2a/(2a + b): a the share of points
    that are positive and right, b the share of wrong ones. The error is that of its first-order expansion in
    both shares, which are drawn together (delta method). NaN where neither occurs.
    """
    hit = float(np.mean(right & positive)) if len(right) else 0.0
    wrong = float(np.mean(~right)) if len(right) else 0.0
    whole = 2 * hit + wrong
    if not whole > 0:
        return float("nan"), float("nan")
    by_hit, by_wrong = 2 * wrong / whole**2, -2 * hit / whole**2
    square = by_hit**2 * hit + by_wrong**2 * wrong - (by_hit * hit + by_wrong * wrong) ** 2
    return 2 * hit / whole, float(np.sqrt(max(square, 0.0) / len(right)))


@dataclass(frozen=True)
class Paired:
    """Two models on the same points, the first less the second."""

    difference: float
    error: float
    first_only: int  # points that only the first has right
    second_only: int
    points: int


def paired(first: Array, second: Array) -> Paired:
    """Difference of two accuracies on the same points, with McNemar's standard error.

    √(b + c − (b − c)²/N)/N for b points that only the first has right and c that only the second has; at
    least one point counts as discordant.
    """
    count = len(first)
    b, c = int((first & ~second).sum()), int((second & ~first).sum())
    if not count:
        return Paired(float("nan"), float("nan"), 0, 0, 0)
    spread = max(b + c - (b - c) ** 2 / count, min(1.0, count))
    return Paired((b - c) / count, float(np.sqrt(spread)) / count, b, c, count)


def mcnemar(first_only: int, second_only: int) -> float:
    """Two-sided exact p: discordant points fall on either side with probability ½ (McNemar 1947)."""
    count = first_only + second_only
    return float(stats.binomtest(first_only, count).pvalue) if count else 1.0


def points_needed(first_only: int, second_only: int, points: int) -> float:
    """How many points it takes to see this difference: p < 0.05 by McNemar's test in 80 % of samples.

    n = (z_0.975 √ψ + z_0.8 √(ψ − δ²))² / δ², δ the difference and ψ the share of discordant points (Connor
    1987, equation 3). Both are taken as they were seen. Infinite where no difference was.
    """
    if not points:
        return float("nan")
    delta, discordant = (first_only - second_only) / points, (first_only + second_only) / points
    if delta == 0:
        return float("inf")
    wanted = NORMAL * np.sqrt(discordant) + stats.norm.ppf(POWER) * np.sqrt(discordant - delta**2)
    return float(np.ceil(wanted**2 / delta**2))


def normal_p(value: float, error: float) -> float:
    """Two-sided p of a normal number of this error; 1 where both are 0."""
    if not np.isfinite([value, error]).all():
        return float("nan")
    return float(2 * stats.norm.sf(abs(value) / error)) if error > 0 else float(value == 0)


def points_of_normal(value: float, error: float, points: int) -> float:
    """As points_needed(), of a number whose error falls as 1/√points, whatever it is a mean of."""
    if not points or not np.isfinite([value, error]).all():
        return float("nan")
    if value == 0:
        return float("inf")
    return float(np.ceil(points * ((NORMAL + stats.norm.ppf(POWER)) * error / value) ** 2))


def paired_ratio(above: Array, below: Array) -> float:
    """Standard error of mean(above)/mean(below) on the same points: a bootstrap's, to first order.

    r = ā/b̄ changes by (aᵢ − r bᵢ)/(N b̄) with the weight of point i. Where that vanishes for every point, one
    discordant point is assumed.
    """
    a, b = np.asarray(above, dtype=float), np.asarray(below, dtype=float)
    if not len(b) or not b.mean() > 0:
        return float("nan")
    influence = (a - a.mean() / b.mean() * b) / b.mean()
    least = 1 / (len(b) * b.mean())
    return max(float(influence.std() / np.sqrt(len(b))), float(least))
