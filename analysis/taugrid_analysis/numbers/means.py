# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Means over what is finite, and numbers of pairs of tasks taken from matrices over tasks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from taugrid_analysis.numbers.arrays import Array, Floats


def mean_of_finite(values: Array, axis: int) -> Floats:
    """Along an axis: a task has no more logits than classes, and a grid may have cells without a number.

    NaN where nothing is finite.
    """
    finite = np.isfinite(values)
    count = finite.sum(axis=axis)
    total = np.where(finite, values, 0.0).sum(axis=axis)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def symmetric(matrix: Array) -> Floats:
    """½(M + Mᵀ): of ‖J(x_b)τ_a‖² it is τJp (paper 3, equation 9)."""
    values = np.asarray(matrix, dtype=float)
    return np.asarray((values + values.T) / 2)


def of_pairs(matrix: Array, pairs: Array) -> Floats:
    return np.asarray(matrix[pairs[:, 0], pairs[:, 1]], dtype=float)


def off_diagonal(matrix: Array) -> Floats:
    return np.asarray(matrix[np.triu_indices(len(matrix), 1)], dtype=float)


def mean(values: Iterable[float]) -> float:
    """Over what is finite; NaN where nothing is."""
    array = np.asarray(list(values), dtype=float)
    array = array[np.isfinite(array)]
    return float(array.mean()) if array.size else float("nan")


def rand_index(a: Array, b: Array) -> float:
    """The Rand index of two partitions of the same tasks, corrected for chance (Hubert and Arabie, 1985).

    By counting over all pairs of tasks: 1 for equal partitions, 0 on average for random ones.
    """
    i, j = np.triu_indices(len(a), 1)
    in_a, in_b = a[i] == a[j], b[i] == b[j]
    if not len(i):
        return 1.0
    together, chance = float((in_a & in_b).sum()), float(in_a.sum() * in_b.sum()) / len(i)
    most = (in_a.sum() + in_b.sum()) / 2
    return 1.0 if most == chance else float((together - chance) / (most - chance))


def normalised(accuracy: Array, single: Array) -> Floats:
    """Accuracies [..., T] over the tasks' own models' [T], as the program has it.

    A task whose own model is never right counts as 0, and what is NaN stays so.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            np.where((single > 0) | np.isnan(single) | np.isnan(accuracy), accuracy / single, 0.0)
        )


def place_of(alpha: Array, wanted: float) -> int | None:
    """Where this coefficient stands; None where it was not measured."""
    if not np.isfinite(wanted) or not len(alpha):
        return None
    place = int(np.argmin(np.abs(alpha - wanted)))
    return place if abs(float(alpha[place]) - wanted) <= 1e-9 else None
