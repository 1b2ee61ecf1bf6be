# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Two models of one run on the same points: differences of accuracy with their paired errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taugrid_analysis.numbers import means, sampling
from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.accuracies import Accuracies
from taugrid_analysis.run.results import Results


@dataclass(frozen=True)
class Difference:
    """A number a task; `paired` where it is known which points each model has right, and p then."""

    value: Floats  # [T]
    error: Floats
    paired: bool
    p: float

    def of_task(self, task: int) -> tuple[float, float]:
        return float(self.value[task]), float(self.error[task])

    @property
    def mean(self) -> float:
        """The mean over the tasks that both models have."""
        return float(self.value[self._held].mean())

    @property
    def mean_error(self) -> float:
        return float(sampling.of_mean(self.error[self._held]))

    @property
    def _held(self) -> Array:
        held = np.isfinite(self.value)
        return held if held.any() else ~held


def single(results: Results, first: str, second: str) -> Difference:
    """The tasks' own models in two regimes, the first less the second."""
    both = [accuracies.accuracies(results, "single_task", name, "accuracy") for name in (first, second)]
    assert both[0] is not None and both[1] is not None
    return _difference(both[0], both[1], None, None)


Sum = tuple[str, float | None]  # a regime, and α; None: the one that validation chose


def added(results: Results, first: Sum, second: Sum) -> Difference:
    """Two sums of all task vectors, the first less the second."""
    both, places = [], []
    for name, alpha in (first, second):
        found = accuracies.accuracies(results, "addition", name, "test_accuracy")
        data = results.data("addition", name)
        assert found is not None and data is not None
        both.append(found)
        wanted = float(data["chosen_alpha"]) if alpha is None else alpha
        places.append(means.place_of(data["alpha"].to_numpy(), wanted))
    if None in places:
        nothing = np.full(len(results.tasks), np.nan)
        return Difference(nothing, nothing, False, float("nan"))
    return _difference(both[0], both[1], places[0], places[1])


def merged(results: Results, first: str, second: str) -> Difference:
    """Two merged models, METHOD/REGIME, each at its chosen α, the first less the second."""
    both, places = [], []
    for name in (first, second):
        found = accuracies.accuracies(results, "merging", name, "test_accuracy")
        data = results.data("merging", name)
        assert found is not None and data is not None
        both.append(found)
        places.append(means.place_of(data["alpha"].to_numpy(), float(data["coefficient"])))
    return _difference(both[0], both[1], places[0], places[1])


def _difference(first: Accuracies, second: Accuracies, row: int | None, other: int | None) -> Difference:
    values, errors, tallies = [], [], []
    for task in range(first.value.sizes["task"]):
        place = (task,) if row is None else (row, task)
        second_place = (task,) if other is None else (other, task)
        values.append(float(first.value.to_numpy()[place]) - float(second.value.to_numpy()[second_place]))
        points = accuracies.paired_points(first, place, second, task, second_place)
        if points is None:
            errors.append(float(np.hypot(first.error[place], second.error[second_place])))
            continue
        tally = sampling.paired(*points)
        errors.append(tally.error)
        tallies.append(tally)
    whole = len(tallies) == len(values)
    p = sampling.mcnemar(sum(t.first_only for t in tallies), sum(t.second_only for t in tallies))
    return Difference(np.array(values), np.array(errors), whole, p if whole else float("nan"))
