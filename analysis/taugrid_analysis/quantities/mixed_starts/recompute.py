# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Two pre-trained models, and sums of vectors of either added to both, again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
from torch import Tensor

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.means import normalised
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
from taugrid_analysis.recompute.models import SPLITS, accuracies, chosen_row
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat, load, parameters

GROUP = "mixed_starts"
SLOW = 20  # places of one quantity: each is a model


def checks(oracle: Oracle) -> Iterator[Check]:
    if names(oracle, GROUP):
        yield from _vectors(oracle)
        yield from _models(oracle)


def starts(oracle: Oracle) -> tuple[Parameters, Parameters]:
    return oracle.theta0, parameters(load(oracle.inputs.other_start(), oracle.of_texts))


def tuned(oracle: Oracle, regime: str, start: int, t: int) -> Parameters:
    if start == 0:
        return oracle.tuned(regime, t)
    folder = oracle.inputs.run / "checkpoints" / "other_start" / regime / oracle.tasks[t]
    return parameters(load(folder, oracle.of_texts))


def _minus(a: Parameters, b: Parameters) -> Parameters:
    return {name: v - b[name] for name, v in a.items()}


def _vectors(oracle: Oracle) -> Iterator[Check]:
    @cache
    def both() -> tuple[Tensor, Tensor]:
        return flat(starts(oracle)[0]), flat(starts(oracle)[1])

    @cache
    def models(regime: str) -> Tensor:
        tasks = range(len(oracle.tasks))
        return torch.stack([flat(tuned(oracle, regime, start, t)) for start in (0, 1) for t in tasks])

    @cache
    def recomputed(regime: str) -> dict[str, Array]:
        count, every = len(oracle.tasks), models(regime)
        from_own_start = torch.cat([every[:count] - both()[0], every[count:] - both()[1]])
        across = torch.cat([every[:count] - both()[1], every[count:] - both()[0]])
        norm = from_own_start.norm(dim=1)
        return {
            "cosine": (from_own_start @ from_own_start.T / norm.outer(norm)).numpy(),
            "norm": norm.numpy(),
            "across_norm": across.norm(dim=1).numpy(),
            "distance": (both()[1] - both()[0]).norm().numpy(),
            "start_norm": np.array([float(theta.norm()) for theta in both()]),
        }

    for name in ("cosine", "norm", "across_norm", "distance", "start_norm"):

        def measure(place: Place, name: str = name) -> Reading:
            again = recomputed(place[0])[name][tuple(place[1:])]
            return relative(stored(oracle, GROUP, name, place), float(again), floor=2e-5)

        yield Check(GROUP, name, places(oracle, GROUP, name), measure)


def _models(oracle: Oracle) -> Iterator[Check]:
    tasks = range(len(oracle.tasks))

    @cache
    def direction(regime: str, start: int, kind: int) -> Parameters:
        """Σ v over the tasks: own, half, other, across."""
        begun = starts(oracle)

        def total(of: int, seen_from: int) -> Parameters:
            every = [_minus(tuned(oracle, regime, of, t), begun[seen_from]) for t in tasks]
            return {name: torch.stack([vector[name] for vector in every]).sum(0) for name in begun[0]}

        own_sum, other_sum = total(start, start), total(1 - start, 1 - start)
        half = {name: (own_sum[name] + other_sum[name]) / 2 for name in own_sum}
        return (own_sum, half, other_sum, total(1 - start, start))[kind]

    def right(theta: Parameters, regime: str, t: int, split: str) -> Array:
        x, y = oracle.points(f"{GROUP}/{regime}/{SPLITS[split]}", t, split)
        output = oracle.through(regime, _minus(theta, oracle.theta0), x, t)
        return np.asarray(oracle.right(t, oracle.logits(t, output), y).numpy())

    def along(regime: str, start: int, kind: int, alpha: float, t: int, split: str) -> Array:
        tau = direction(regime, start, kind)
        theta = {name: v + alpha * tau[name] for name, v in starts(oracle)[start].items()}
        return right(theta, regime, t, split)

    def tested(place: Place) -> Array:
        regime, start, kind, t = place
        alpha = float(oracle.results[f"{GROUP}/{regime}/coefficient"][start, kind])
        return along(regime, start, kind, alpha, t, "test")

    def validated(place: Place) -> Reading:
        regime, start, kind, a, t = place
        alpha = float(oracle.results[f"{GROUP}/{regime}/alpha"][a])
        scores = along(regime, start, kind, alpha, t, "validation")
        value = stored(oracle, GROUP, "validation_accuracy", place)
        return share(value, float(scores.mean()), len(scores))

    yield from accuracies(oracle, GROUP, "accuracy", tested, SLOW)
    name = "validation_accuracy"
    yield Check(GROUP, name, places(oracle, GROUP, name), validated, SLOW)

    for name in ("start_accuracy", "own_accuracy"):

        def single(place: Place, name: str = name) -> Reading:
            regime, start, t = place
            of_start = name == "start_accuracy"
            theta = starts(oracle)[start] if of_start else tuned(oracle, regime, start, t)
            scores = right(theta, regime, t, "test")
            return share(stored(oracle, GROUP, name, place), float(scores.mean()), len(scores))

        yield Check(GROUP, name, places(oracle, GROUP, name), single, SLOW)

    def follows(place: Place, name: str) -> Reading:
        """`normalized` by own_accuracy; the coefficient where the first start's own models choose it."""
        regime, start, kind = place
        node = oracle.results[f"{GROUP}/{regime}"]
        accuracy = node["accuracy"][start, kind]
        if name == "absolute":
            return exact(node[name][start, kind], accuracy.mean())
        if name == "normalized":
            return exact(node[name][start, kind], normalised(accuracy, node["own_accuracy"][start]).mean())
        validation = oracle.results[f"single_task/{regime}/validation_accuracy"][()]
        best = chosen_row(node["validation_accuracy"][start, kind], validation)
        return exact(node[name][start, kind], node["alpha"][best])

    for name in ("absolute", "normalized", "coefficient"):
        every = places(oracle, GROUP, name)
        if name == "coefficient":
            every = [place for place in every if place[1] == 0]
        yield Check(GROUP, name, every, lambda place, name=name: follows(place, name))  # type: ignore[misc]
