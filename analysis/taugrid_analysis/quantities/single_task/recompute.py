# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Accuracies and losses of θ0 and of each task's own model again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.recompute.checks import (
    FLOOR,
    Check,
    Place,
    Reading,
    exact,
    places,
    relative,
    share,
    stored,
)
from taugrid_analysis.recompute.common import each_place
from taugrid_analysis.recompute.models import SPLITS, accuracies
from taugrid_analysis.recompute.oracle import Oracle
from taugrid_analysis.run.regimes import STARTS


def checks(oracle: Oracle) -> Iterator[Check]:
    group = "single_task"

    def outcome(place: Place, split: str) -> tuple[Array, float]:
        regime, t = place
        index = f"{group}/{regime}/{SPLITS[split]}"
        right, loss = oracle.outcome(regime, {} if regime in STARTS else {t: 1.0}, t, index, split)
        return right.numpy(), loss

    yield from accuracies(oracle, group, "accuracy", lambda place: outcome(place, "test")[0])
    yield from accuracies(oracle, group, "validation_accuracy", lambda place: outcome(place, "validation")[0])
    yield Check(
        group,
        "loss",
        places(oracle, group, "loss"),
        lambda place: relative(stored(oracle, group, "loss", place), outcome(place, "test")[1], floor=FLOOR),
    )

    def beats(place: Place) -> Reading:
        """Judges by the stored accuracy: a point on the border of two classes is not this check's."""
        regime, t = place
        if oracle.heads[t].kind == "text":  # which has no majority
            return exact(stored(oracle, group, "beats_majority", place), 1.0)
        _, y = oracle.points(f"{group}/{regime}/{SPLITS['validation']}", t, "validation")
        vote = float(oracle.classes_of(t, y).bincount().max()) / len(y)
        accuracy = float(oracle.results[f"{group}/{regime}/validation_accuracy"][t])
        return exact(stored(oracle, group, "beats_majority", place), float(accuracy > vote))

    yield from each_place(oracle, group, "beats_majority", beats)
    for split, variable in (("test", "control_accuracy"), ("validation", "control_validation_accuracy")):
        yield from each_place(oracle, group, variable, _control(oracle, variable, split))


def _control(oracle: Oracle, variable: str, split: str) -> Callable[[Place], Reading]:
    """θ0 on the control task, whose rows follow from the run's seed."""

    def measure(place: Place) -> Reading:
        t = len(oracle.tasks)
        rows = oracle.control_rows(split)
        x, y = oracle.sample(split, t, rows)
        output = oracle.through(place[0], oracle.step(place[0], {}), x, t)
        right = oracle.right(t, oracle.logits(t, output), y)
        return share(stored(oracle, "single_task", variable, place), float(right.double().mean()), len(rows))

    return measure
