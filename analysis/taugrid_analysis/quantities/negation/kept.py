# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""How sure it is that a negation kept the control: its accuracy beside θ0's, on the same points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taugrid_analysis.numbers import means, sampling
from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.numbers.sampling import NORMAL
from taugrid_analysis.quantities.negation import forgetting
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.results import Results


@dataclass(frozen=True)
class Kept:
    """What the tasks that have an α keep, on the control's test points."""

    accuracy: Measured  # mean over tasks
    share: Measured  # of θ0's accuracy, mean over tasks
    above: int  # tasks whose share's 95 % interval lies above the floor
    unsure: int
    below: int
    points: int
    paired: bool  # from points, not as if θ0 had been measured on others


def kept(results: Results, regime: str, prefix: str = "") -> Kept | None:
    """None where no task has an α.

    prefix: "" and "wide_": at the chosen α of [0,1] and [0,3]; "one_shot_": at α = 1.
    """
    data = results.data("negation", regime)
    control = accuracies.accuracies(results, "negation", regime, "test_control")
    before = forgetting.control_accuracy(results)
    if data is None or control is None or not before > 0:
        return None
    alpha = data["alpha"].to_numpy()
    if prefix == "one_shot_":
        wanted = np.ones(len(results.tasks))
    elif f"{prefix}chosen_alpha" in data:
        wanted = data[f"{prefix}chosen_alpha"].to_numpy()
    else:
        return None
    places = [means.place_of(alpha, float(value)) for value in wanted]
    shown = [(task, place) for task, place in enumerate(places) if place is not None]
    if not shown:
        return None
    start = results.correct(f"single_task/{results.start}/control_accuracy")
    paired = control.correct is not None and start is not None
    if control.correct is not None and start is not None:
        after = np.stack([control.correct.of(*place) for place in shown]).astype(float)
        numbers = _paired(after, start.of().astype(float))
    else:
        numbers = _apart(*forgetting.chosen(control, shown), before)
    accuracy, share, shares, errors = numbers
    floor = float(data.attrs["control_threshold"])
    low, high = shares - NORMAL * errors, shares + NORMAL * errors
    above, below = int((low > floor).sum()), int((high < floor).sum())
    points = int(np.max(control.points[shown[0]]))
    return Kept(accuracy, share, above, len(shown) - above - below, below, points, paired)


Made = tuple[Measured, Measured, Floats, Floats]


def _paired(after: Array, before: Array) -> Made:
    """after [K,N], before [N]: which points are right. A point counts with the mean of its K tasks."""
    of_points = after.mean(axis=0)
    count = len(before)
    accuracy = Measured(float(of_points.mean()), float(of_points.std() / np.sqrt(count)))
    share = Measured(float(of_points.mean() / before.mean()), sampling.paired_ratio(of_points, before))
    errors = np.array([sampling.paired_ratio(row, before) for row in after])
    return accuracy, share, after.mean(axis=1) / before.mean(), errors


def _apart(value: Floats, error: Floats, before: Measured) -> Made:
    """Without points: all tasks share the control's, so a mean does not lessen the error."""
    accuracy = Measured(float(value.mean()), float(error.mean()))
    below = float(before)
    both = zip(value, error, strict=True)
    errors = np.array([sampling.of_ratio(float(a), below, float(e), before.error) for a, e in both])
    share = sampling.of_ratio(float(accuracy), below, accuracy.error, before.error)
    return accuracy, Measured(float(accuracy) / below, share), value / below, errors
