# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Stitched models again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import torch
from torch import Tensor

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.linearity.recompute import features
from taugrid_analysis.recompute import answers, text_layers
from taugrid_analysis.recompute.checks import (
    Check,
    Place,
    Reading,
    exact,
    names,
    pairs,
    places,
    share,
    stored,
)
from taugrid_analysis.recompute.oracle import PART, Oracle

SLOW = 20  # stitched models of one quantity


def stitched(oracle: Oracle, features_at: Tensor, block: int, x: Tensor, t: int) -> Tensor:
    """The output of θ0 on x where block `block`, of 1 … L, gives these features instead of its own."""
    outputs = []
    if oracle.is_net:
        with torch.no_grad():
            return oracle.read(oracle.theta0, features_at, t, begin=block)
    for part, replacement in zip(x.split(PART), features_at.split(PART), strict=True):
        if oracle.of_texts:
            with torch.no_grad(), text_layers.stitched(oracle.model, replacement, block):
                outputs.append(oracle.read(oracle.theta0, part, t))
            continue

        def replace(_module: object, _inputs: object, output: object, new: Tensor = replacement) -> object:
            return (new, *output[1:]) if isinstance(output, tuple) else new

        handle = oracle.model.vision_model.encoder.layers[block - 1].register_forward_hook(replace)
        try:
            with torch.no_grad():
                outputs.append(oracle.read(oracle.theta0, part, t))
        finally:
            handle.remove()
    return torch.cat(outputs)


def stitch(
    oracle: Oracle, regime: str, edits: list[tuple[float, dict[int, float]]], t: int, block: int, index: str
) -> Array:
    """Which points are right with Σ weight · f(θ0 + edit) at the block, and θ0 above; t: whose points."""
    x, y = oracle.points(index, t)
    mixed = sum(weight * features(oracle, regime, edit, x)[block] for weight, edit in edits)
    assert isinstance(mixed, Tensor)
    logits = oracle.logits(t, stitched(oracle, mixed, block, x, t))
    return oracle.right(t, logits, y).numpy()


def checks(oracle: Oracle) -> Iterator[Check]:
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
            scores, value = again(place), stored(oracle, group, what, place)
            return exact(value, float("nan")) if scores is None else share(value, scores.mean(), len(scores))

        return measure

    known = names(oracle, group)
    for what in ("pair", "single", "negated", "edited"):
        for name in (what, f"{what}_control"):
            every = places(oracle, group, name) if known else []
            if every:
                yield Check(group, name, every, measure_of(name), SLOW)
