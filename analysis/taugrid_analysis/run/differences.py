# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Two models of one run on the same points: differences of accuracy with their paired errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    points: int = 0  # of all tasks together; 0 where it is not known which are right
    points_needed: float = float("nan")  # for the mean, as sampling.points_needed() has it
    pooled: bool = True  # p is of all tasks' points together, of which each task has as many

    @property
    def needs(self) -> str | None:
        """How many points this mean asks for; None where those that there are show it."""
        if not self.paired or self.p < 1 - sampling.LEVEL:
            return None
        return (
            "no number" if np.isinf(self.points_needed) else f"{self.points_needed:,.0f} of {self.points:,}"
        )

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
        accuracy = accuracies.accuracies(results, "addition", name, "test_accuracy")
        data = results.data("addition", name)
        assert accuracy is not None and data is not None
        both.append(accuracy)
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
        accuracy = accuracies.accuracies(results, "merging", name, "test_accuracy")
        data = results.data("merging", name)
        assert accuracy is not None and data is not None
        both.append(accuracy)
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
    if not whole:
        return Difference(np.array(values), np.array(errors), False, float("nan"))
    difference = Difference(np.array(values), np.array(errors), True, float("nan"))
    first_only, second_only, points = (
        sum(getattr(tally, name) for tally in tallies) for name in ("first_only", "second_only", "points")
    )
    if len({tally.points for tally in tallies if tally.points}) > 1:
        # Each task counts once, whatever its points: pooled, the one with the most would decide.
        return replace(
            difference,
            p=sampling.normal_p(difference.mean, difference.mean_error),
            points=points,
            points_needed=sampling.points_of_normal(difference.mean, difference.mean_error, points),
            pooled=False,
        )
    return replace(
        difference,
        p=sampling.mcnemar(first_only, second_only),
        points=points,
        points_needed=sampling.points_needed(first_only, second_only, points),
    )


NEEDED = (
    "points needed: where p ≥ 0.05, how many of all tasks together it takes until a difference like the seen"
    " one, with as many points on which the two differ, has p < 0.05 in 80 % of samples."
)
