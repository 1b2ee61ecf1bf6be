# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Averages, ensembles and stitched models again: the latter by hooks that replace a block's output in θ0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import torch
from torch import Tensor

from taugrid_analysis.recompute import answers, text_layers
from taugrid_analysis.recompute.checks import (
    Check,
    Place,
    Reading,
    bits,
    exact,
    names,
    pairs,
    places,
    relative,
    share,
    stored,
)
from taugrid_analysis.recompute.linearity import features
from taugrid_analysis.recompute.oracle import PART, Oracle
from taugrid_analysis.records import Array

SLOW = 20  # stitched models of one quantity
AVERAGES = ("weights", "logits", "features")


def checks(oracle: Oracle) -> Iterator[Check]:
    yield from _averages(oracle)
    yield from _stitching(oracle)


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
    return (logits.argmax(1) == y).numpy()


def gap(oracle: Oracle, regime: str, members: list[int], t: int, index: str) -> float:
    """Of theorem 4.3, the models at their whole vectors, over the points of task t."""

    def output(edits: tuple[tuple[int, float], ...]) -> Tensor:
        return oracle.output(regime, edits, t, index, "test").double()

    parts = len(members) + 1
    start, mixed = output(()), output(tuple((k, 1 / parts) for k in members))
    apart = torch.stack([start, *(output(((k, 1.0),)) for k in members)]).mean(dim=0)
    return float(((mixed - apart).norm(dim=1) / (apart - start).norm(dim=1)).mean())


def _averages(oracle: Oracle) -> Iterator[Check]:
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
            found, value = right(kind, place), stored(oracle, group, kind, place)
            return exact(value, float("nan")) if found is None else share(value, found.mean(), len(found))

        return measure

    def correct(kind: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            found = right(kind, place)
            if found is None:
                return exact(0.0, 0.0)
            return share(bits(oracle, f"{group}/{place[0]}/{kind}", place[1:], found) or 0.0, 0.0, len(found))

        return measure

    if not names(oracle, group):
        return
    for kind in AVERAGES:
        every = places(oracle, group, kind)
        yield Check(group, kind, every, accuracy(kind))
        yield Check("correct", f"{group}/{kind}", every, correct(kind))
    yield Check(group, "gap", places(oracle, group, "gap"), apart)


def stitched(oracle: Oracle, features_at: Tensor, block: int, x: Tensor, t: int) -> Tensor:
    """The output of θ0 on x where block `block`, of 1 … L, gives these features instead of its own."""
    found = []
    if oracle.is_net:
        with torch.no_grad():
            return oracle.read(oracle.theta0, features_at, t, begin=block)
    for part, replacement in zip(x.split(PART), features_at.split(PART), strict=True):
        if oracle.of_texts:
            with torch.no_grad(), text_layers.stitched(oracle.model, replacement, block):
                found.append(oracle.read(oracle.theta0, part, t))
            continue

        def replace(_module: object, _inputs: object, output: object, new: Tensor = replacement) -> object:
            return (new, *output[1:]) if isinstance(output, tuple) else new

        handle = oracle.model.vision_model.encoder.layers[block - 1].register_forward_hook(replace)
        try:
            with torch.no_grad():
                found.append(oracle.read(oracle.theta0, part, t))
        finally:
            handle.remove()
    return torch.cat(found)


def stitch(
    oracle: Oracle, regime: str, edits: list[tuple[float, dict[int, float]]], t: int, block: int, index: str
) -> Array:
    """Which points are right with Σ weight · f(θ0 + edit) at the block, and θ0 above; t: whose points."""
    x, y = oracle.points(index, t)
    mixed = sum(weight * features(oracle, regime, edit, x)[block] for weight, edit in edits)
    assert isinstance(mixed, Tensor)
    return (oracle.logits(t, stitched(oracle, mixed, block, x, t)).argmax(1) == y).numpy()


def _stitching(oracle: Oracle) -> Iterator[Check]:
    group, both = "stitching", pairs(oracle)
    if any(head.kind in answers.KINDS for head in oracle.heads):  # a decoder of many places
        return
    joined = {frozenset(pair) for pair in both} | {frozenset([t]) for t in range(len(oracle.tasks))}

    def models(what: str, place: Place, coefficient: float) -> list[tuple[float, dict[int, float]]]:
        if what.startswith("pair"):
            return [(0.5, {k: coefficient}) for k in both[place[1]]]
        if what.startswith("negated"):
            return [(2.0, {}), (-1.0, {place[1]: coefficient})]
        return [(1.0, {place[1]: -coefficient if what.startswith("edited") else coefficient})]

    def whose(what: str, place: Place) -> int | None:
        if what.endswith("_control"):
            return len(oracle.tasks)
        if what == "pair":
            return both[place[1]][place[2]]
        if what == "single":
            return int(place[2]) if frozenset(place[1:3]) in joined else None
        return int(place[1])

    def measure_of(what: str) -> Callable[[Place], Reading]:
        @cache
        def again(place: Place) -> Array | None:
            node = oracle.results[f"{group}/{place[0]}"]
            t = whose(what, place)
            if t is None:
                return None
            coefficient, block = float(node["lambda"][place[-2]]), int(node["block"][place[-1]])
            index = "control_sample_index" if what.endswith("_control") else "sample_index"
            chosen = models(what, place, coefficient)
            return stitch(oracle, place[0], chosen, t, block, f"{group}/{place[0]}/{index}")

        def measure(place: Place) -> Reading:
            found, value = again(place), stored(oracle, group, what, place)
            return exact(value, float("nan")) if found is None else share(value, found.mean(), len(found))

        return measure

    known = names(oracle, group)
    for what in ("pair", "single", "negated", "edited"):
        for name in (what, f"{what}_control"):
            every = places(oracle, group, name) if known else []
            if every:
                yield Check(group, name, every, measure_of(name), SLOW)
