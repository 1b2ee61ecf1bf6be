# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Prediction of merges with tasks left out: by hand, of what is predictable, and of what is not."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from taugrid_analysis.numbers import prediction
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.predictors.tables import merge_table
from taugrid_analysis.run.opened import Run

TASKS = 7


def symmetric(rng: np.random.Generator) -> Array:
    drawn = rng.normal(size=(TASKS, TASKS))
    return np.asarray(drawn + drawn.T)


def subsets(*sizes: int) -> Array:
    sets = [set(chosen) for size in sizes for chosen in combinations(range(TASKS), size)]
    return np.array([[task in chosen for task in range(TASKS)] for chosen in sets])


def test_means_over_pairs() -> None:
    pairs = symmetric(np.random.default_rng(0))
    member = subsets(2, 4)
    by_hand = [np.mean([pairs[i, j] for i, j in combinations(np.flatnonzero(row), 2)]) for row in member]
    np.testing.assert_allclose(prediction.of_merges(member, pairs), by_hand)
    of_task = [np.mean([pairs[t, s] for s in range(TASKS) if s != t]) for t in range(TASKS)]
    np.testing.assert_allclose(prediction.of_tasks(pairs), of_task)


def test_errors_by_hand() -> None:
    """Each task's merges are predicted by a line through all others, by numpy's polynomials."""
    rng = np.random.default_rng(1)
    pairs, member = symmetric(rng), subsets(2)
    x = prediction.of_merges(member, pairs)
    y = 0.9 - 0.1 * x + 0.02 * rng.normal(size=len(x))
    with_it, without = [], []
    for task in range(TASKS):
        out = member[:, task]
        with_it.append(np.mean((np.polyval(np.polyfit(x[~out], y[~out], 1), x[out]) - y[out]) ** 2))
        without.append(np.mean((y[~out].mean() - y[out]) ** 2))
    predicted = prediction.merges(member, y, pairs)
    assert predicted is not None and predicted.merges == len(y)
    assert predicted.with_it == pytest.approx(np.sqrt(np.mean(with_it)))
    assert predicted.without == pytest.approx(np.sqrt(np.mean(without)))
    assert predicted.gain == pytest.approx(1 - np.mean(with_it) / np.mean(without)) and predicted.gain > 0.8
    assert predicted.p == 1 / (prediction.PERMUTATIONS + 1)


def test_the_number_of_tasks_is_no_gain() -> None:
    """What a line over the size already says is not counted for a predictor that grows with it."""
    rng = np.random.default_rng(2)
    member = subsets(2, 3, 4)
    y = 1 - 0.1 * np.log(member.sum(1)) + 0.001 * rng.normal(size=len(member))
    predicted = prediction.merges(member, y, symmetric(rng))
    assert predicted is not None and predicted.without < 0.002 and predicted.gain < 0.2


def test_noise_predicts_nothing() -> None:
    """p is below 0.05 in about as many trials, though pairs share tasks."""
    below, gains, trials = 0, 0, 60
    member = subsets(2)
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        effect = rng.normal(size=TASKS)  # of the tasks, which the predictor does not know
        y = member @ effect + 0.3 * rng.normal(size=len(member))
        predicted = prediction.merges(member, y, symmetric(rng))
        assert predicted is not None
        below += predicted.p < 0.05
        gains += predicted.gain > 0
    assert below <= 8 and gains < trials / 2


def test_tasks_of_one_merge() -> None:
    rng = np.random.default_rng(3)
    pairs = symmetric(rng)
    x = prediction.of_tasks(pairs)
    predicted = prediction.tasks(0.5 + 0.2 * x, pairs)
    assert (
        predicted is not None and predicted.merges == TASKS and predicted.with_it < 1e-9 < predicted.without
    )
    missing = 0.5 + 0.2 * x
    missing[0] = np.nan
    assert (some := prediction.tasks(missing, pairs)) is not None and some.merges == TASKS - 1
    assert some == prediction.tasks(missing[1:], pairs[1:, 1:])  # whatever the pairs of what is left out


@pytest.mark.parametrize("case", ["few", "constant", "missing", "every merge has a task"])
def test_nothing_is_said_of_too_little(case: str) -> None:
    rng = np.random.default_rng(4)
    pairs, member = symmetric(rng), subsets(2)
    y = rng.normal(size=len(member))
    if case == "few":
        member, y = member[:5], y[:5]
    elif case == "constant":
        pairs = np.ones((TASKS, TASKS))
    elif case == "missing":
        pairs[0, 1] = np.nan
    else:
        member, y = member[member[:, 0]], y[member[:, 0]]
    assert prediction.merges(member, y, pairs) is None


def test_the_table_of_a_run(run_folder: Path) -> None:
    with Run(run_folder) as run:
        table = merge_table(run)
    assert table.rows
    for row in table.rows:
        assert row[0] in ("standard", "linear", "posthoc", "tau_jp") and isinstance(row[3], int)
        assert float(str(row[4])) > 0 and 0 < float(str(row[7])) <= 1
