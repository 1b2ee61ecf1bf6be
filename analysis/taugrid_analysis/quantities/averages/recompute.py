# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Averages of models and ensembles again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.recompute.checks import (
    Check,
    Place,
    Reading,
    bits,
    exact,
    names,
    places,
    relative,
    share,
    stored,
    with_bits,
)
from taugrid_analysis.recompute.oracle import Oracle

AVERAGES = ("weights", "logits", "features")


def average(oracle: Oracle, kind: str, regime: str, members: list[int], t: int, index: str) -> Array:
    """Which points of task t this average of the members' models has right."""
    count = len(members)
    _, y = oracle.points(index, t)
    if kind == "weights":
        edits = tuple((k, 1 / count) for k in members)
        logits = oracle.logits(t, oracle.output(regime, edits, t, index, "test"))
    else:
        outputs = [oracle.output(regime, ((k, 1.0),), t, index, "test") for k in members]
        mean = sum(oracle.logits(t, z) if kind == "logits" else z for z in outputs) / count
        assert isinstance(mean, Tensor)
        logits = mean if kind == "logits" else oracle.logits(t, mean)
    return oracle.right(t, logits, y).numpy()


def gap(oracle: Oracle, regime: str, members: list[int], t: int, index: str) -> float:
    """The gap of theorem 4.3, the models at their whole vectors, over the points of task t."""

    def output(edits: tuple[tuple[int, float], ...]) -> Tensor:
        return oracle.output(regime, edits, t, index, "test").double()

    parts = len(members) + 1
    start, mixed = output(()), output(tuple((k, 1 / parts) for k in members))
    apart = torch.stack([start, *(output(((k, 1.0),)) for k in members)]).mean(dim=0)
    return float(((mixed - apart).norm(dim=1) / (apart - start).norm(dim=1)).mean())


def checks(oracle: Oracle) -> Iterator[Check]:
    group = "averages"

    def set_of(place: Place) -> list[int] | None:
        """The models, if they are looked at on this task's points."""
        regime, s, t = place
        member = oracle.results[f"{group}/{regime}/sets"][s]
        members = [int(k) for k in np.flatnonzero(member)]
        alike = [k for k in members if oracle.sources[k] == oracle.sources[t]]
        # Of several fine-tunings of one task, the first one has the points.
        return members if alike and alike[0] == t else None

    def right(kind: str, place: Place) -> Array | None:
        members, regime, t = set_of(place), place[0], place[2]
        if members is None:
            return None
        return average(oracle, kind, regime, members, t, f"{group}/{regime}/sample_index")

    def apart(place: Place) -> Reading:
        members, regime, t = set_of(place), place[0], place[2]
        value = stored(oracle, group, "gap", place)
        if members is None:
            return exact(value, float("nan"))
        again = gap(oracle, regime, members, t, f"{group}/{regime}/sample_index")
        return relative(value, again, 1e-3, 1e-5)

    def accuracy(kind: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            scores, value = right(kind, place), stored(oracle, group, kind, place)
            return exact(value, float("nan")) if scores is None else share(value, scores.mean(), len(scores))

        return measure

    def correct(kind: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            scores = right(kind, place)
            if scores is None:
                return exact(0.0, 0.0)
            return share(
                bits(oracle, f"{group}/{place[0]}/{kind}", place[1:], scores) or 0.0, 0.0, len(scores)
            )

        return measure

    if not names(oracle, group):
        return
    for kind in AVERAGES:
        every = places(oracle, group, kind)
        yield Check(group, kind, every, accuracy(kind))
        if known := with_bits(oracle, group, kind, every):
            yield Check("correct", f"{group}/{kind}", known, correct(kind))
    yield Check(group, "gap", places(oracle, group, "gap"), apart)
