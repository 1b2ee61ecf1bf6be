# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frames tell of sums of two task vectors."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.means import mean, place_of
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.group import SUMS
from taugrid_analysis.run.results import Results


def of_pairs(results: Results, regime: str) -> dict[str, Array]:
    nothing, data = results.nothing(), results.data("pair_addition", regime)
    columns: dict[str, Array] = {}
    for column in SUMS:
        columns[column] = data[column].to_numpy() if data is not None else nothing
        if column != "chosen_alpha":
            columns[f"{column}_error"] = nothing
    if data is None:
        return columns
    for prefix in ("", "one_shot_"):
        alpha = data["chosen_alpha"].to_numpy() if not prefix else np.ones(len(results.pairs))
        errors = sum_errors(results, regime, alpha)
        for column, error in zip(("absolute", "normalized"), errors, strict=True):
            columns[f"{prefix}{column}_error"] = error
    return columns


def of_regime(results: Results, regime: str) -> dict[str, float]:
    """Without an error: the same points serve several pairs, and which of them agree is not known."""
    data = results.data("pair_addition", regime)
    return {
        "pairs": mean(data["normalized"].to_numpy()) if data is not None else np.nan,
        "one_shot_pairs": mean(data["one_shot_normalized"].to_numpy()) if data is not None else np.nan,
    }


def sum_errors(results: Results, name: str, alpha: Array) -> tuple[Floats, Floats]:
    """Standard errors of the mean accuracy of a pair's two tasks, and of the mean over their own models'."""
    test = accuracies.accuracies(results, "pair_addition", name, "test_accuracy")
    single = accuracies.accuracies(results, "single_task", name, "accuracy")
    assert test is not None
    absolute, normalized = results.nothing(), results.nothing()
    error = test.error
    for pair, both in enumerate(results.pairs):
        place = place_of(test.value["alpha"].to_numpy(), float(alpha[pair]))
        if place is None:
            continue
        absolute[pair] = np.hypot(*error[pair, place]) / 2
        if single is not None:
            ratios = [
                accuracies.ratio_error(test, (pair, place, side), single, int(task))
                for side, task in enumerate(both)
            ]
            normalized[pair] = np.hypot(ratios[0], ratios[1]) / 2
    return absolute, normalized
