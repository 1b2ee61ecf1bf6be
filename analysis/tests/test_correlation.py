# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Correlations against hand and SciPy; their test against permutations counted one by one."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from taugrid_analysis.numbers import correlation
from taugrid_analysis.numbers.correlation import Estimate, estimates, pearson, rank_correlation


def pairs_of(count: int) -> np.ndarray:
    return np.array([(i, j) for i in range(count) for j in range(i + 1, count)])


def estimate_of(x: np.ndarray, y: np.ndarray, entries: np.ndarray) -> Estimate:
    return estimates({"x": x}, {"y": y}, entries)["y"]["x"]


def test_rank_correlation() -> None:
    assert rank_correlation(np.array([1, 2, 3, 4]), np.array([1, 4, 9, 16])) == pytest.approx(1)
    assert rank_correlation(np.array([1, 2, 3]), np.array([3, 2, 1])) == pytest.approx(-1)
    # ties: ranks (1, 2.5, 2.5, 4) against (1, 2, 3, 4)
    assert rank_correlation(np.array([1, 2, 2, 3]), np.array([1, 2, 3, 4])) == pytest.approx(0.9**0.5)
    assert np.isnan(rank_correlation(np.ones(4), np.arange(4)))


def test_pearson() -> None:
    """The numbers by hand: deviations (−1, 0, 1) and (−2, 1, 1), covariance 3, variances 2 and 6."""
    x, y = np.tile([1, 2, 3], 2), np.tile([0, 3, 3], 2)
    assert pearson(x, y) == pytest.approx(3 / 12**0.5)
    assert np.isnan(pearson(x[:5], y[:5]))  # too few


def counted(x: np.ndarray, others: list[np.ndarray], y: np.ndarray, tasks: int) -> tuple[float, float]:
    """p of x, and of the best of x and the others, from SciPy's correlation over every permutation."""
    entries = [tuple(pair) for pair in pairs_of(tasks).tolist()]
    place = {pair: index for index, pair in enumerate(entries)}
    observed = abs(stats.spearmanr(x, y).statistic) - 1e-12
    reached, best, count = 0, 0, 0
    for order in permutations(range(tasks)):
        moved = [place[tuple(sorted((order[i], order[j])))] for i, j in entries]
        correlations = [abs(stats.spearmanr(predictor[moved], y).statistic) for predictor in (x, *others)]
        reached += correlations[0] >= observed
        best += max(correlations) >= observed
        count += 1
    return reached / count, best / count


def test_permutations_of_tasks_one_by_one() -> None:
    rng = np.random.default_rng(2)
    entries = pairs_of(5)
    x, other, y = rng.normal(size=(3, 10))
    y += 1.5 * x
    by_predictor = estimates({"x": x, "other": other}, {"y": y}, entries)["y"]
    p, best = counted(x, [other], y, 5)
    assert by_predictor["x"].value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert (by_predictor["x"].p, by_predictor["x"].best) == pytest.approx((p, best))
    assert by_predictor["x"].p < by_predictor["x"].best


def test_leaving_out_a_task() -> None:
    rng = np.random.default_rng(4)
    entries = pairs_of(6)
    x, y = rng.normal(size=(2, 15))
    estimate = estimate_of(x, y, entries)
    without = [
        stats.spearmanr(x[keep], y[keep]).statistic
        for task in range(6)
        if (keep := (entries != task).all(axis=1)).any()
    ]
    assert (estimate.low, estimate.high) == pytest.approx((min(without), max(without)))


def test_pairs_that_share_a_task_are_no_independent_samples() -> None:
    """x and y are effects of the tasks, drawn apart: a test of 28 independent pairs finds them too often."""
    entries, false, textbook, draws = pairs_of(8), 0, 0, 200
    rng = np.random.default_rng(0)
    for _ in range(draws):
        a, b = rng.normal(size=(2, 8))
        x, y = a[entries].sum(axis=1), b[entries].sum(axis=1)
        false += estimate_of(x, y, entries).p < 0.05
        textbook += stats.spearmanr(x, y).pvalue < 0.05
    assert false / draws <= 0.09  # 5 % within two and a half standard errors
    assert textbook / draws > 0.15


def test_the_best_of_several_is_found_by_chance_no_more_often() -> None:
    entries, alone, corrected, draws = pairs_of(7), 0, 0, 150
    rng = np.random.default_rng(1)
    for _ in range(draws):
        y, *many = rng.normal(size=(6, 7))[:, entries].sum(axis=2)
        tried = estimates({str(index): x for index, x in enumerate(many)}, {"y": y}, entries)["y"].values()
        alone += min(estimate.p for estimate in tried) < 0.05
        corrected += min(estimate.best for estimate in tried) < 0.05
    assert alone / draws > 0.12 and corrected / draws <= 0.1


def test_the_best_of_several_outcomes_is_found_by_chance_no_more_often() -> None:
    entries, alone, corrected, draws = pairs_of(7), 0, 0, 150
    rng = np.random.default_rng(3)
    for _ in range(draws):
        x, *many = rng.normal(size=(5, 7))[:, entries].sum(axis=2)
        outcomes = {str(index): y for index, y in enumerate(many)}
        tried = [by_predictor["x"] for by_predictor in estimates({"x": x}, outcomes, entries).values()]
        alone += min(estimate.p for estimate in tried) < 0.05
        corrected += min(estimate.best for estimate in tried) < 0.05
    assert alone / draws > 0.1 and corrected / draws <= 0.1


def test_ordered_pairs_and_missing_ones() -> None:
    """Both directions of every pair can be tested; with a pair missing, permutations cannot."""
    rng = np.random.default_rng(3)
    ordered = np.concatenate([pairs_of(5), pairs_of(5)[:, ::-1]])
    x, y = rng.normal(size=(2, 20))
    assert 0 < estimate_of(x, y, ordered).p <= 1
    estimate = estimate_of(x[:9], y[:9], pairs_of(5)[:9])
    assert np.isfinite(estimate.value) and np.isnan([estimate.p, estimate.best]).all()
    x[3] = np.nan
    assert correlation.usable(x, y) == 19 and np.isnan(estimate_of(x, y, ordered).p)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.arange(3.0), np.arange(3.0)),  # too few pairs
        (np.ones(28), np.arange(28.0)),
        (np.arange(28.0), np.full(28, 0.1) + 1e-17 * np.arange(28)),  # constant but for rounding
        (np.full(28, np.nan), np.arange(28.0)),
    ],
    ids=["few", "constant x", "constant y", "nothing"],
)
def test_no_correlation_of_few_or_constant_values(x: np.ndarray, y: np.ndarray) -> None:
    estimate = estimate_of(x, y, pairs_of(3 if len(x) == 3 else 8))
    assert np.isnan([estimate.value, estimate.low, estimate.high, estimate.p, estimate.best]).all()
