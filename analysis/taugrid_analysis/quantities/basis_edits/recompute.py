# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What bases do for a task, again: subtracted, or added for a task that has no part in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.bases.recompute import SLOW, basis_of
from taugrid_analysis.quantities.merging import formulas
from taugrid_analysis.quantities.merging.formulas import Settings
from taugrid_analysis.quantities.negation.recompute import at_chosen_alpha, choice
from taugrid_analysis.recompute.checks import (
    Check,
    Place,
    Reading,
    exact,
    names,
    places,
    relative,
    share,
    stored,
)
from taugrid_analysis.recompute.models import SPLITS, accuracies, right_at, rows_of
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat

NEGATION, TRANSFER = "basis_negation", "basis_transfer"


def checks(oracle: Oracle) -> Iterator[Check]:
    inside = dict(oracle.inputs.config.get("bases", {}).get("merge_in", {}))
    if not formulas.has(inside.get("method", ""), inside):
        return
    if names(oracle, NEGATION):
        yield from _negation(oracle, inside)
    if names(oracle, TRANSFER):
        yield from _transfer(oracle, inside)


def _cosine(first: Parameters, second: Parameters) -> float:
    a, b = flat(first), flat(second)
    norm = float(a.norm() * b.norm())
    return float(a @ b) / norm if norm else 0.0


def _negation(oracle: Oracle, inside: Settings) -> Iterator[Check]:
    """θ0 − αB with the basis nearest to a task."""

    @lru_cache(8)
    def basis(regime: str, cluster: int) -> Parameters:
        labels = oracle.results[f"{NEGATION}/{regime}/labels"][()]
        return basis_of(oracle, regime, inside, np.flatnonzero(labels == cluster))

    def cosines(regime: str, t: int) -> list[float]:
        labels = oracle.results[f"{NEGATION}/{regime}/labels"][()]
        return [_cosine(oracle.tau(regime, t), basis(regime, c)) for c in range(labels.max() + 1)]

    def nearest(place: Place) -> Reading:
        """The chosen basis has the largest cosine, which is the stored one."""
        chosen = int(stored(oracle, NEGATION, "nearest", place))
        values = cosines(place[0], place[1])
        largest = max(values) if values[chosen] >= max(values) - 1e-5 else float("nan")
        return relative(stored(oracle, NEGATION, "nearest_cosine", place), largest, floor=1e-5)

    yield Check(NEGATION, "nearest_cosine", places(oracle, NEGATION, "nearest_cosine"), nearest, SLOW)

    def right(split: str, on_control: bool, place: Place) -> Array:
        regime, t, a = place
        node = oracle.results[f"{NEGATION}/{regime}"]
        tau, where = basis(regime, int(node["nearest"][t])), len(oracle.tasks) if on_control else t
        members = [int(i) for i in np.flatnonzero(node["labels"][()] == node["nearest"][t])]
        index, alpha = f"{node.name}/{rows_of(split, on_control)}", -float(node["alpha"][a])
        return right_at(oracle, regime, tau, alpha, members, index, where, split)

    for split in SPLITS:
        yield from accuracies(oracle, NEGATION, f"{split}_target", partial(right, split, False), SLOW)
        yield from accuracies(oracle, NEGATION, f"{split}_control", partial(right, split, True), SLOW)
    yield from choice(oracle, NEGATION)
    yield from at_chosen_alpha(oracle, NEGATION)


def _transfer(oracle: Oracle, inside: Settings) -> Iterator[Check]:
    """Bases of the other tasks, added for the one that is held out."""

    @lru_cache(8)
    def basis(regime: str, t: int, cluster: int) -> Parameters:
        labels = oracle.results[f"{TRANSFER}/{regime}/labels"][t]
        return basis_of(oracle, regime, inside, np.flatnonzero(labels == cluster))

    def similar(place: Place) -> Reading:
        value, (regime, t, c) = stored(oracle, TRANSFER, "cosine", place), place
        if np.isnan(value):
            return exact(value, float("nan"))
        return relative(value, _cosine(oracle.tau(regime, t), basis(regime, t, c)), floor=1e-5)

    yield Check(TRANSFER, "cosine", places(oracle, TRANSFER, "cosine"), similar, SLOW)

    def accuracy(split: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, t, c, a = place
            node = oracle.results[f"{TRANSFER}/{regime}"]
            value = stored(oracle, TRANSFER, f"{split}_accuracy", place)
            if np.isnan(value):
                return exact(float(node["labels"][t].max() < c), 1.0)
            members = [int(i) for i in np.flatnonzero(node["labels"][t] == c)]
            tau, alpha, index = basis(regime, t, c), float(node["alpha"][a]), f"{node.name}/{SPLITS[split]}"
            right = right_at(oracle, regime, tau, alpha, members, index, t, split)
            return share(value, float(right.mean()), len(right))

        return measure

    for split in SPLITS:
        name = f"{split}_accuracy"
        yield Check(TRANSFER, name, places(oracle, TRANSFER, name), accuracy(split), SLOW)

    def follows(place: Place) -> Reading:
        """What is told of the nearest basis is its test accuracy where validation points choose."""
        regime, t = place
        node = oracle.results[f"{TRANSFER}/{regime}"]
        nearest = int(np.nanargmax(node["cosine"][t]))
        best = int(np.argmax(node["validation_accuracy"][t, nearest]))
        return exact(node["accuracy"][t], node["test_accuracy"][t, nearest, best])

    yield Check(TRANSFER, "accuracy", places(oracle, TRANSFER, "accuracy"), follows)
