# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merging methods that need data, from their formulas: τ, and what a run says beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, jacrev, vmap
from torch.nn.functional import log_softmax

from taugrid_analysis.files import text
from taugrid_analysis.recompute.checks import Check, Place, Reading, places, relative, stored
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat
from taugrid_analysis.regimes import is_linear

Settings = dict[str, Any]
CHUNK = 16  # samples whose gradients are held together


def inputs(oracle: Oracle, group: str, t: int) -> Tensor:
    """Those of task t that the method took."""
    split = text(oracle.results[group].attrs["inputs"])
    return oracle.sample(split, t, oracle.rows(f"{group}/data_sample_index", t))[0]


def fisher_information(oracle: Oracle, regime: str, t: int, classes: str) -> Parameters:
    """Mean over samples of Σ_c p_c (∂ log p_c)², or of the predicted class; a linear model's J is θ0's."""
    base = oracle.theta0 if is_linear(regime) else oracle.tuned(regime, t)
    x = inputs(oracle, f"merging/fisher/{regime}", t)
    z = oracle.through(regime, oracle.tau(regime, t), x)

    def log_p(one: Tensor) -> Tensor:
        return log_softmax(oracle.logits(t, one[None])[0], 0)

    p, slopes = vmap(log_p)(z).exp(), vmap(jacrev(log_p))(z)  # [n, C], [n, C, width]
    if classes == "predicted":
        rows, best = torch.arange(len(z)), p.argmax(1)
        slopes = slopes[rows, best][:, None]
    else:
        slopes = slopes * p.sqrt()[:, :, None]
    each = vmap(
        grad(lambda theta, one, slope: (oracle.encode(theta, one[None])[0] * slope).sum()), (None, 0, 0)
    )
    found = {name: torch.zeros_like(v) for name, v in base.items()}
    for c in range(slopes.shape[1]):
        for part, slope in zip(x.split(CHUNK), slopes[:, c].split(CHUNK), strict=True):
            for name, g in each(base, part, slope).items():
                found[name] += g.detach().square().sum(0) / len(x)
    return found


@cache
def informations(oracle: Oracle, regime: str, classes: str) -> list[Parameters]:
    return [fisher_information(oracle, regime, t, classes) for t in range(len(oracle.tasks))]


def fisher(oracle: Oracle, regime: str, told: Settings) -> Parameters:
    every = informations(oracle, regime, told["fisher"])
    above = {name: torch.zeros_like(v) for name, v in oracle.theta0.items()}
    below = {name: torch.zeros_like(v) for name, v in oracle.theta0.items()}
    for t, information in enumerate(every):
        weight = 1 / float(flat(information).norm()) if told["normalize"] else 1.0
        tau = oracle.tau(regime, t)
        for name, f in information.items():
            floored = f.clamp(min=told["floor"]) if t == 0 or told["floor_of"] == "all" else f
            above[name] += weight * floored * tau[name]
            below[name] += weight * floored
    return {name: above[name] / below[name] for name in above}


METHODS: dict[str, Callable[[Oracle, str, Settings], Parameters]] = {"fisher": fisher}


def checks(oracle: Oracle, method: str, told: Settings) -> Iterator[Check]:
    """Of what the method's group has of its own."""
    if method == "fisher":
        yield from _of_fisher(oracle, told)


def _of_fisher(oracle: Oracle, told: Settings) -> Iterator[Check]:
    group = "merging/fisher"

    def measure(name: str, again: Callable[[Tensor], float], part: float, floor: float) -> Check:
        def one(place: Place) -> Reading:
            regime, t = place
            found = again(flat(informations(oracle, regime, told["fisher"])[t]))
            return relative(stored(oracle, group, name, place), found, part, floor)

        return Check(group, name, places(oracle, group, name), one)

    yield measure("norm", lambda f: float(f.norm()), 1e-3, 0.0)
    yield measure("floored", lambda f: float((f < told["floor"]).double().mean()), 0.0, 2e-3)
