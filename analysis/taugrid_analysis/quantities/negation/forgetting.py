# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What is left of a task and of the control once the task's vector is subtracted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taugrid_analysis.numbers import means, sampling
from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.means import place_of
from taugrid_analysis.numbers.measured import NOTHING, Measured, measured_mean
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.accuracies import Accuracies
from taugrid_analysis.run.results import Results


@dataclass(frozen=True)
class Forgetting:
    """Means over the tasks whose control was kept, of accuracies after negation."""

    alpha: float
    target: Measured
    control: Measured
    kept: int  # tasks


def forgetting(
    results: Results, regime: str, wide: bool = False, group: str = "negation"
) -> Forgetting | None:
    """Takes the α that validation chose for each task in [0,1], or in [0,3]. `group`: of τ or of bases."""
    data = results.data(group, regime)
    prefix = "wide_" if wide else ""
    if data is None or f"{prefix}chosen_alpha" not in data:
        return None
    return _negated(results, regime, data[f"{prefix}chosen_alpha"].to_numpy(), group)


def one_shot_forgetting(results: Results, regime: str) -> Forgetting | None:
    """Takes α = 1, untuned: means over all tasks; `kept` counts those whose test control stays high."""
    data = results.data("negation", regime)
    place = None if data is None else place_of(data["alpha"].to_numpy(), 1.0)
    if data is None or place is None:
        return None
    negated = _negated(results, regime, np.ones(len(results.tasks)))
    least = float(data.attrs["control_threshold"]) * control_accuracy(results)
    kept = int((data["test_control"].to_numpy()[:, place] >= least).sum())
    return Forgetting(1.0, negated.target, negated.control, kept)


def control_accuracy(results: Results) -> Measured:
    """θ0's on the control task; NaN where none was named."""
    start = results.data("single_task", results.start)
    if start is None or "control_accuracy" not in start:
        return NOTHING
    points = [len(rows) for rows in _control_rows(results)]
    value = float(start["control_accuracy"])
    return Measured(value, float(sampling.binomial(value, max(points, default=0))))


def _control_rows(results: Results) -> list[Array]:
    datasets = (results.data("negation", name) for name in results.names("negation"))
    return [
        data["control_sample_index"].to_numpy()
        for data in datasets
        if data is not None and "control_sample_index" in data
    ]


def _negated(results: Results, regime: str, alpha: Array, group: str = "negation") -> Forgetting:
    """θ0 − α τ with an α for each task; NaN leaves a task out. All tasks share the control's points."""
    target = accuracies.accuracies(results, group, regime, "test_target")
    control = accuracies.accuracies(results, group, regime, "test_control")
    assert target is not None and control is not None
    places = [place_of(target.value["alpha"].to_numpy(), float(value)) for value in alpha]
    shown = [(task, place) for task, place in enumerate(places) if place is not None]
    return Forgetting(
        means.mean(alpha),
        measured_mean(*chosen(target, shown)),
        _on_same_points(*chosen(control, shown)),
        len(shown),
    )


def chosen(scores: Accuracies, shown: list[tuple[int, int]]) -> tuple[Floats, Floats]:
    """The accuracies at these tasks and places, and their errors."""
    value = np.array([float(scores.value.to_numpy()[place]) for place in shown])
    return value, np.array([float(scores.error[place]) for place in shown])


def _on_same_points(values: Floats, errors: Floats) -> Measured:
    """A mean of accuracies on the same points: their errors are taken as fully correlated, at most."""
    if not len(values):
        return NOTHING
    return Measured(float(values.mean()), float(errors.mean()))
