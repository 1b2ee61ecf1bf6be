# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Correlations and their intervals against hand and against SciPy's own bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from taugrid_analysis import correlation
from taugrid_analysis.correlation import estimate, pearson, rank_correlation


def test_rank_correlation() -> None:
    assert rank_correlation(np.array([1, 2, 3, 4]), np.array([1, 4, 9, 16])) == pytest.approx(1)
    assert rank_correlation(np.array([1, 2, 3]), np.array([3, 2, 1])) == pytest.approx(-1)
    # ties: ranks (1, 2.5, 2.5, 4) against (1, 2, 3, 4)
    assert rank_correlation(np.array([1, 2, 2, 3]), np.array([1, 2, 3, 4])) == pytest.approx(0.9**0.5)
    assert np.isnan(rank_correlation(np.ones(4), np.arange(4)))


def test_pearson() -> None:
    """By hand: deviations (−1, 0, 1) and (−2, 1, 1), covariance 3, variances 2 and 6."""
    assert pearson(np.array([1, 2, 3]), np.array([0, 3, 3])) == pytest.approx(3 / 12**0.5)


@pytest.mark.parametrize("ranks", [False, True], ids=["pearson", "spearman"])
def test_interval_agrees_with_scipy(ranks: bool) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=28)
    y = 0.7 * x + rng.normal(size=28)
    found = estimate(x, y, ranks)
    single = stats.spearmanr if ranks else stats.pearsonr
    assert found.value == pytest.approx(single(x, y).statistic, abs=1e-12)
    other = stats.bootstrap(
        (x, y),
        lambda a, b: single(a, b).statistic,
        paired=True,
        vectorized=False,
        n_resamples=600,
        method="percentile",
        rng=np.random.default_rng(9),
    ).confidence_interval
    assert found.low == pytest.approx(other.low, abs=0.06)
    assert found.high == pytest.approx(other.high, abs=0.06)
    assert found.low < found.value < found.high


def test_interval_is_the_same_every_time() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 28))
    assert estimate(x, y, ranks=True) == estimate(x, y, ranks=True)


def test_a_point_that_is_missing_is_left_out() -> None:
    x, y = np.arange(9.0), np.arange(9.0) ** 2
    y[3] = np.nan
    keep = np.isfinite(y)
    assert estimate(x, y, ranks=False) == estimate(x[keep], y[keep], ranks=False)
    assert correlation.usable(x, y) == 8


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.arange(5.0), np.arange(5.0)),  # too few pairs
        (np.ones(28), np.arange(28.0)),
        (np.arange(28.0), np.full(28, 0.1) + 1e-17 * np.arange(28)),  # constant but for rounding
        (np.full(28, np.nan), np.arange(28.0)),
    ],
    ids=["few", "constant x", "constant y", "nothing"],
)
def test_no_correlation_of_few_or_constant_values(x: np.ndarray, y: np.ndarray) -> None:
    for ranks in (False, True):
        found = estimate(x, y, ranks)
        assert np.isnan([found.value, found.low, found.high]).all()


def test_resamples_that_are_constant_do_not_spoil_the_interval() -> None:
    """Five equal values of six: a third of the resamples is constant."""
    found = estimate(np.array([0.0, 0, 0, 0, 0, 1]), np.array([5.0, 4, 3, 2, 1, 9]), ranks=True)
    assert np.isfinite([found.value, found.low, found.high]).all()
