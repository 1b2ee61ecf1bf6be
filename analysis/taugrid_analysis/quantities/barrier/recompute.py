# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The loss barrier of a pair again, and its curvature by differentiating twice along the pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import torch
from torch import Tensor
from torch.func import grad, jvp

from taugrid_analysis.recompute.checks import (
    FLOOR,
    ROUNDING,
    Check,
    Place,
    Reading,
    names,
    pairs,
    places,
    relative,
    stored,
)
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat

GROUP = "barrier"
SLOW = 6


def loss(oracle: Oracle, regime: str, p: int, edits: dict[int, float]) -> float:
    """The mean of both tasks' losses on their training points."""
    index = f"{GROUP}/{regime}/sample_index"
    both = [oracle.accuracy_and_loss(regime, edits, t, index, "train")[1] for t in pairs(oracle)[p]]
    return sum(both) / len(both)


def second_derivative(along: Callable[[Tensor], Tensor]) -> float:
    """The second derivative at 0, forward over reverse: forward over forward leaves some terms out."""
    zero, unit = torch.zeros((), dtype=torch.double), torch.ones((), dtype=torch.double)
    return float(jvp(grad(along), (zero,), (unit,))[1])


def _moved(
    oracle: Oracle, regime: str, at: dict[int, float], v: Parameters, x: Tensor, t: int
) -> Callable[[Tensor], Tensor]:
    """s ↦ the output for task t at θ0 + Σ α τ + s v, in the regime's function; statistics stay."""
    step = oracle.step(regime, at)
    if oracle.regime(regime).linear:
        f, slope = oracle.through(regime, step, x, t), oracle.tangent(v, x, t)[1]
        return lambda s: f + s * slope
    theta = {k: p + step[k] for k, p in oracle.theta0.items()}
    stored = oracle.edited_statistics(regime, tuple(at.items()))
    return lambda s: oracle.read(stored | {k: p + s * v[k] for k, p in theta.items()}, x, t)


def curvature(oracle: Oracle, regime: str, p: int, place: float) -> float:
    """vᵀHv of that loss at θ0 + place · (τᵢ + τⱼ), v = τᵢ − τⱼ: the second derivative along v."""
    pair = pairs(oracle)[p]
    at = dict.fromkeys(pair, place)
    v = oracle.step(regime, {pair[0]: 1.0, pair[1]: -1.0})
    total = 0.0
    for t in pair:
        x, y = oracle.points(f"{GROUP}/{regime}/sample_index", t, "train")
        output = _moved(oracle, regime, at, v, x, t)

        def along(
            s: Tensor, output: Callable[[Tensor], Tensor] = output, t: int = t, y: Tensor = y
        ) -> Tensor:
            return oracle.loss(t, oracle.logits(t, output(s)), y)

        total += second_derivative(along)
    return total / len(pair)


def checks(oracle: Oracle) -> Iterator[Check]:
    curved = cache(lambda regime, p, place: curvature(oracle, regime, p, place))
    losses = cache(lambda regime, p, edits: loss(oracle, regime, p, dict(edits)))

    def ends(place: Place) -> list[float]:
        pair = pairs(oracle)[place[1]]
        return [losses(place[0], place[1], ((t, 1.0),)) for t in pair]

    def delta(place: Place) -> Reading:
        regime, p, a = place
        alpha = float(oracle.results[f"{GROUP}/{regime}/alpha"][a])
        first, second = ends(place)
        i, j = pairs(oracle)[p]
        middle = losses(regime, p, ((i, alpha), (j, 1 - alpha)))
        again = alpha * first + (1 - alpha) * second - middle
        return Reading(stored(oracle, GROUP, "delta", place), again, ROUNDING * (first + second) + FLOOR)

    def distance(place: Place) -> Reading:
        i, j = pairs(oracle)[place[1]]
        v = oracle.step(place[0], {i: 1.0, j: -1.0})
        return relative(stored(oracle, GROUP, "distance", place), float(flat(v).norm()), 1e-5)

    def bent(name: str, where: float) -> Callable[[Place], Reading]:
        return lambda place: relative(
            stored(oracle, GROUP, name, place), curved(*place, where), 1e-3, floor=1e-5
        )

    if not names(oracle, GROUP):
        return
    yield Check(GROUP, "delta", places(oracle, GROUP, "delta"), delta, SLOW)
    yield Check(GROUP, "distance", places(oracle, GROUP, "distance"), distance)
    for name, where in (("curvature", 0.0), ("middle_curvature", 0.5)):
        yield Check(GROUP, name, places(oracle, GROUP, name), bent(name, where), SLOW)
    yield Check(
        GROUP,
        "loss",
        places(oracle, GROUP, "loss"),
        lambda place: relative(stored(oracle, GROUP, "loss", place), ends(place)[place[2]], floor=FLOOR),
        SLOW,
    )
