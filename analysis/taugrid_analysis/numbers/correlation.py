# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Rank correlation of numbers of pairs of tasks, tested by permutations of the tasks.

Pairs share tasks, so they are not independent: 28 pairs of eight tasks are no 28 samples, and neither a
bootstrap over pairs nor a textbook p-value holds. Under the null hypothesis of Mantel (1967) the tasks' names
carry no information: x of the pair (i, j) is replaced by x of (π(i), π(j)) for permutations π of the tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import factorial

import numpy as np
from scipy import stats

from taugrid_analysis.numbers.arrays import Array, Floats

LEAST = 6  # pairs; below that a correlation says nothing
PERMUTATIONS = 9999  # drawn where there are more than that; else all of them
SEED = 0


@dataclass(frozen=True)
class Estimate:
    """Spearman's correlation of one x with y."""

    value: float
    low: float  # least and largest where one task's pairs are left out
    high: float
    p: float  # of a value as far from 0, over permutations of the tasks
    best: float  # of the best of all x and outcomes as far from 0: corrected for having looked at them all


NOTHING = Estimate(*5 * (float("nan"),))


def rank_correlation(x: Array, y: Array) -> float:
    """Spearman's, with mean ranks for ties; NaN for fewer than three points or where one side is constant."""
    return _alone(x, y, ranks=True)


def pearson(x: Array, y: Array) -> float:
    """NaN for fewer than LEAST points or where one side is constant."""
    return _alone(x, y, ranks=False) if usable(x, y) >= LEAST else float("nan")


def _alone(x: Array, y: Array, ranks: bool) -> float:
    a, b = _finite(x, y)
    if a.size < 3 or not varies(a) or not varies(b):
        return float("nan")
    if ranks:
        a, b = stats.rankdata(a), stats.rankdata(b)
    # Processors differ in the last digits, which would set the sign of what is 0, or a digit of 1/8.
    return float(np.round(_standard(a) @ _standard(b), 12)) + 0.0


def usable(x: Array, y: Array) -> int:
    """Pairs with both numbers."""
    return len(_finite(x, y)[0])


def estimates(
    predictors: Mapping[str, Array], outcomes: Mapping[str, Array], entries: Array
) -> dict[str, dict[str, Estimate]]:
    """Correlates each x with every outcome.

    entries [P,2]: the tasks of every number, ordered if (i,j) and (j,i) are there. p and best are NaN where a
    number is missing or the entries are not all pairs: then permutations leave them. best is corrected for
    having looked at all x and at all outcomes.
    """
    by_outcome = {
        name: {key: _estimate(x, y, entries) for key, x in predictors.items()} for name, y in outcomes.items()
    }
    moved = _permuted(entries)
    tested = [
        (name, key)
        for name, y in outcomes.items()
        for key, x in predictors.items()
        if np.isfinite(by_outcome[name][key].value) and np.isfinite(x).all() and np.isfinite(y).all()
    ]
    if moved is None or not tested:
        return by_outcome
    ranked = {
        key: _standard(stats.rankdata(predictors[key]))[moved] for key in dict.fromkeys(k for _, k in tested)
    }
    targets = {
        name: _standard(stats.rankdata(outcomes[name])) for name in dict.fromkeys(n for n, _ in tested)
    }
    drawn = np.stack([np.abs(ranked[key] @ targets[name]) for name, key in tested])  # [tested, permutation]
    largest = drawn.max(axis=0)
    for row, (name, key) in zip(drawn, tested, strict=True):
        estimate = by_outcome[name][key]
        reached = abs(estimate.value) - 1e-12
        by_outcome[name][key] = replace(
            estimate, p=float((row >= reached).mean()), best=float((largest >= reached).mean())
        )
    return by_outcome


def _estimate(x: Array, y: Array, entries: Array) -> Estimate:
    if usable(x, y) < LEAST:
        return NOTHING
    value = rank_correlation(x, y)
    without = [
        rank_correlation(x[(entries != task).all(axis=1)], y[(entries != task).all(axis=1)])
        for task in np.unique(entries)
    ]
    known = [coefficient for coefficient in without if np.isfinite(coefficient)] if np.isfinite(value) else []
    nothing = float("nan")
    return Estimate(value, min(known, default=nothing), max(known, default=nothing), nothing, nothing)


def _permuted(entries: Array) -> Array | None:
    """[permutations, P]: whose x stands in every entry's place, identity first; None without all pairs."""
    tasks = np.unique(entries)
    count = len(tasks)
    given: Sequence[tuple[int, int]] = [(int(i), int(j)) for i, j in entries]
    place = {pair: index for index, pair in enumerate(given)}
    if len(place) not in (count * (count - 1) // 2, count * (count - 1)):
        return None
    for (i, j), index in list(place.items()):
        place.setdefault((j, i), index)
    if len(place) != count * (count - 1):
        return None
    if factorial(count) <= PERMUTATIONS + 1:
        drawn = np.array(list(permutations(range(count))))
    else:
        rng = np.random.default_rng(SEED)
        shuffled = rng.permuted(np.tile(np.arange(count), (PERMUTATIONS, 1)), axis=1)
        drawn = np.concatenate([np.arange(count)[None], shuffled])
    table = np.zeros((count, count), dtype=int)
    position = {int(task): index for index, task in enumerate(tasks)}
    for (i, j), index in place.items():
        table[position[i], position[j]] = index
    first = np.array([position[i] for i, _ in given])
    second = np.array([position[j] for _, j in given])
    return np.asarray(table[drawn[:, first], drawn[:, second]])


def _finite(x: Array, y: Array) -> tuple[Floats, Floats]:
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    keep = np.isfinite(a) & np.isfinite(b)
    return a[keep], b[keep]


def varies(values: Floats) -> bool:
    """More than by rounding."""
    return bool(np.ptp(values) > 1e-12 * np.abs(values).max())


def _standard(values: Floats) -> Floats:
    """Mean 0 and length 1: then products are correlations."""
    centred = values - values.mean()
    return np.asarray(centred / np.sqrt((centred**2).sum()))
