# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Accuracies and losses of models trained on all tasks again."""

from __future__ import annotations

from collections.abc import Iterator

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.recompute.checks import FLOOR, Check, Place, names, places, relative, stored
from taugrid_analysis.recompute.models import SPLITS, accuracies
from taugrid_analysis.recompute.oracle import Oracle


def checks(oracle: Oracle) -> Iterator[Check]:
    group = "multitask"

    def outcome(place: Place, split: str) -> tuple[Array, float]:
        regime, t = place
        right, loss = oracle.joint_outcome(regime, t, f"{group}/{regime}/{SPLITS[split]}", split)
        return right.numpy(), loss

    if not [name for name in names(oracle, group) if oracle.regime(name).joint]:
        return
    yield from accuracies(oracle, group, "accuracy", lambda place: outcome(place, "test")[0])
    yield from accuracies(oracle, group, "validation_accuracy", lambda place: outcome(place, "validation")[0])
    yield Check(
        group,
        "loss",
        places(oracle, group, "loss"),
        lambda place: relative(stored(oracle, group, "loss", place), outcome(place, "test")[1], floor=FLOOR),
    )
