# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The sum of all task vectors at one α, with the errors of its accuracies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.means import normalised, place_of
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.results import Results


def tolerant_share(alpha: Array, accuracy: Array, points: float = 0.01) -> float:
    """Part of the α range where the accuracy, linear between coefficients, is within `points` of its best."""
    order = np.argsort(alpha)
    x, y = alpha[order].astype(float), accuracy[order].astype(float) - (float(accuracy.max()) - points)
    if len(x) < 2:
        return float("nan")
    low, high = np.minimum(y[:-1], y[1:]), np.maximum(y[:-1], y[1:])
    crossing = high / np.where(high > low, high - low, 1.0)
    inside = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, crossing))
    return float((inside * np.diff(x)).sum() / (x[-1] - x[0]))


@dataclass(frozen=True)
class Added:
    """The sum of all task vectors at one α: accuracy of each task, and over its own model's, with errors."""

    alpha: float
    accuracy: Floats  # [T]
    accuracy_error: Floats
    normalized: Floats
    normalized_error: Floats


def added(results: Results, regime: str, alpha: float | None = None) -> Added | None:
    """Takes the α that validation chose, or another that was measured."""
    data = results.data("addition", regime)
    test = accuracies.accuracies(results, "addition", regime, "test_accuracy")
    if data is None or test is None:
        return None
    wanted = float(data["chosen_alpha"]) if alpha is None else alpha
    place = place_of(data["alpha"].to_numpy(), wanted)
    count = len(results.tasks)
    nothing = np.full(count, np.nan)
    if place is None:
        return Added(wanted, nothing, nothing, nothing, nothing)
    single = accuracies.accuracies(results, "single_task", regime, "accuracy")
    accuracy = test.value.to_numpy()[place].astype(float)
    if single is None:
        return Added(wanted, accuracy, test.error[place], nothing, nothing)
    normalized = normalised(accuracy, single.value.to_numpy())
    errors = [accuracies.ratio_error(test, (place, t), single, t) for t in range(count)]
    return Added(wanted, accuracy, test.error[place], normalized, np.array(errors))
