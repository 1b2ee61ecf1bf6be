# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers derived from edited models: sums, negations, further steps, and what training them cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from taugrid_analysis import measures
from taugrid_analysis.records import (
    Addition,
    Array,
    Choice,
    Continuation,
    Cost,
    Floats,
    Multitask,
    Negation,
    SingleTask,
)
from taugrid_analysis.regimes import JOINT
from taugrid_analysis.results import Results


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


def at_alpha(alpha: Array, values: Array, wanted: float) -> Floats:
    """The measured values at this coefficient, last axis α; NaN where it was not measured."""
    place = int(np.argmin(np.abs(alpha - wanted)))
    if abs(float(alpha[place]) - wanted) > 1e-9:
        return np.full(values.shape[:-1], np.nan)
    return np.asarray(values[..., place], dtype=float)


@dataclass(frozen=True)
class Forgetting:
    """Means over the tasks whose control was kept, of accuracies after negation."""

    alpha: float
    target: float
    control: float
    kept: int  # tasks


def forgetting(choice: Choice) -> Forgetting:
    kept = np.isfinite(choice.alpha)
    return Forgetting(
        measures.mean(choice.alpha[kept]),
        measures.mean(choice.target[kept]),
        measures.mean(choice.control[kept]),
        int(kept.sum()),
    )


def one_shot_forgetting(record: Negation, start: SingleTask | None) -> Forgetting:
    """At α = 1, untuned: means over all tasks; `kept` counts those whose test control stays high enough."""
    target = at_alpha(record.alpha, record.test_target, 1.0)
    control = at_alpha(record.alpha, record.test_control, 1.0)
    base = start.control_accuracy if start is not None else None
    least = record.threshold * base if base is not None else float("nan")
    return Forgetting(1.0, measures.mean(target), measures.mean(control), int((control >= least).sum()))


def normalized_by_task(record: Addition, single: SingleTask) -> Floats:
    """Each task's accuracy in the sum at the chosen α, over its own model's."""
    return np.asarray(added_by_task(record) / np.asarray(single.accuracy, dtype=float))


def joint(results: Results, regime: str, record: Multitask) -> dict[str, float]:
    """One model trained on all tasks: mean accuracy, and over that of each task's own model."""
    single = results.single_task(JOINT.get(regime, "standard"))
    found = {"absolute": measures.mean(record.accuracy), "normalized": float("nan")}
    if single is not None:
        share = np.asarray(record.accuracy, dtype=float) / np.asarray(single.accuracy, dtype=float)
        found["normalized"] = measures.mean(share)
    return found


def added_by_task(record: Addition) -> Floats:
    return at_alpha(record.alpha, record.test_accuracy.T, record.chosen_alpha)


def pair_trace(record: Continuation, pairs: Array) -> Floats:
    """[S,P]: τJp of every pair along the steps."""
    return np.stack([measures.of_pairs(measures.symmetric(value), pairs) for value in record.tau_jp])


def worst_pair(record: Continuation, pairs: Array) -> int:
    """Of largest τJp before the further steps."""
    first = pair_trace(record, pairs)[0]
    return int(np.argmax(np.where(np.isfinite(first), first, -np.inf)))


def cost_ratios(costs: Mapping[str, Cost | None]) -> dict[str, float]:
    """Seconds a step over those of standard fine-tuning."""
    base = costs.get("standard")
    unit = base.seconds_per_step if base is not None and base.seconds_per_step > 0 else float("nan")
    return {name: cost.seconds_per_step / unit for name, cost in costs.items() if cost is not None}
