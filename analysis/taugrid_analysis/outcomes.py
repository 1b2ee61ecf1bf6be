# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers derived from edited models: sums, negations, further steps, and what training them cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from taugrid_analysis import accuracies, measures, sampling
from taugrid_analysis.accuracies import Accuracies
from taugrid_analysis.records import Array, Floats
from taugrid_analysis.results import Results
from taugrid_analysis.text_table import Measured


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


def place_of(alpha: Array, wanted: float) -> int | None:
    """Where this coefficient stands; None where it was not measured."""
    if not np.isfinite(wanted) or not len(alpha):
        return None
    place = int(np.argmin(np.abs(alpha - wanted)))
    return place if abs(float(alpha[place]) - wanted) <= 1e-9 else None


def measured_mean(values: Array, errors: Array) -> Measured:
    """Of what is finite, over different tasks: their evaluation points are independent."""
    finite = np.isfinite(values)
    if not finite.any():
        return Measured(float("nan"), float("nan"))
    return Measured(float(np.mean(values[finite])), float(sampling.of_mean(errors[finite])))


@dataclass(frozen=True)
class Added:
    """The sum of all task vectors at one α: accuracy of each task, and over its own model's, with errors."""

    alpha: float
    accuracy: Floats  # [T]
    accuracy_error: Floats
    normalized: Floats
    normalized_error: Floats


def added(results: Results, regime: str, alpha: float | None = None) -> Added | None:
    """At the α that validation chose, or at another that was measured."""
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
    own = accuracies.accuracies(results, "single_task", regime, "accuracy")
    accuracy = test.value.to_numpy()[place].astype(float)
    if own is None:
        return Added(wanted, accuracy, test.error[place], nothing, nothing)
    with np.errstate(divide="ignore", invalid="ignore"):
        normalized = accuracy / own.value.to_numpy()
    errors = [accuracies.ratio_error(test, (place, t), own, t) for t in range(count)]
    return Added(wanted, accuracy, test.error[place], normalized, np.array(errors))


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
    """At the α that validation chose for each task in [0,1], or in [0,3]; `group`: of τ or of bases."""
    data = results.data(group, regime)
    prefix = "wide_" if wide else ""
    if data is None or f"{prefix}chosen_alpha" not in data:
        return None
    return _negated(results, regime, data[f"{prefix}chosen_alpha"].to_numpy(), group)


def one_shot_forgetting(results: Results, regime: str) -> Forgetting | None:
    """At α = 1, untuned: means over all tasks; `kept` counts those whose test control stays high enough."""
    data = results.data("negation", regime)
    if data is None:
        return None
    place = place_of(data["alpha"].to_numpy(), 1.0)
    found = _negated(results, regime, np.ones(len(results.tasks)))
    least = float(data.attrs["control_threshold"]) * control_accuracy(results)
    kept = 0 if place is None else int((data["test_control"].to_numpy()[:, place] >= least).sum())
    return Forgetting(1.0, found.target, found.control, kept)


def control_accuracy(results: Results) -> Measured:
    """θ0's on the control task; NaN where none was named."""
    start = results.data("single_task", results.start)
    if start is None or "control_accuracy" not in start:
        return Measured(float("nan"), float("nan"))
    points = [len(rows) for rows in _control_rows(results)]
    value = float(start["control_accuracy"])
    return Measured(value, float(sampling.binomial(value, max(points, default=0))))


def _control_rows(results: Results) -> list[Array]:
    found = (results.data("negation", name) for name in results.names("negation"))
    return [
        data["control_sample_index"].to_numpy()
        for data in found
        if data is not None and "control_sample_index" in data
    ]


def _negated(results: Results, regime: str, alpha: Array, group: str = "negation") -> Forgetting:
    """θ0 − α τ with an α for each task; NaN leaves a task out. All tasks share the control's points."""
    target = accuracies.accuracies(results, group, regime, "test_target")
    control = accuracies.accuracies(results, group, regime, "test_control")
    assert target is not None and control is not None
    places = [place_of(target.value["alpha"].to_numpy(), float(one)) for one in alpha]
    shown = [(task, place) for task, place in enumerate(places) if place is not None]
    return Forgetting(
        measures.mean(alpha),
        measured_mean(*_chosen(target, shown)),
        _on_same_points(*_chosen(control, shown)),
        len(shown),
    )


def _chosen(found: Accuracies, shown: list[tuple[int, int]]) -> tuple[Floats, Floats]:
    value = np.array([float(found.value.to_numpy()[place]) for place in shown])
    return value, np.array([float(found.error[place]) for place in shown])


def _on_same_points(values: Floats, errors: Floats) -> Measured:
    """A mean of accuracies on the same points: their errors are taken as fully correlated, at most."""
    if not len(values):
        return Measured(float("nan"), float("nan"))
    return Measured(float(values.mean()), float(errors.mean()))


def pair_trace(record: xr.Dataset, pairs: Array) -> Floats:
    """[S,P]: τJp of every pair along the steps of a continuation."""
    return np.stack(
        [measures.of_pairs(measures.symmetric(value), pairs) for value in record["tau_jp"].to_numpy()]
    )


def extreme_pairs(record: xr.Dataset, pairs: Array) -> tuple[int, int]:
    """The pairs of most and of least interference (τJp) before the further steps."""
    first = pair_trace(record, pairs)[0]
    finite = np.isfinite(first)
    return int(np.argmax(np.where(finite, first, -np.inf))), int(np.argmin(np.where(finite, first, np.inf)))


def cost_ratios(results: Results) -> dict[str, float]:
    """Seconds a step over those of standard fine-tuning."""
    costs = {name: results.data("cost", name) for name in results.names("cost")}
    seconds = {name: float(cost["seconds_per_step"]) for name, cost in costs.items() if cost is not None}
    unit = seconds.get("standard", float("nan"))
    return {name: one / unit if unit > 0 else float("nan") for name, one in seconds.items()}
