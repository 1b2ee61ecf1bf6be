# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merging methods that need data, from their formulas: τ, and what a run says beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, grad_and_value, jacrev, vmap
from torch.nn.functional import log_softmax

from taugrid_analysis.files import text
from taugrid_analysis.recompute import draws, masks, texts
from taugrid_analysis.recompute.checks import Check, Place, Reading, places, relative, stored
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat
from taugrid_analysis.regimes import is_linear

Settings = dict[str, Any]
CHUNK = 16  # samples whose gradients are held together


def inputs(oracle: Oracle, group: str, t: int) -> Tensor:
    """Those of task t that the method took."""
    split = text(oracle.results[group].attrs["inputs"])
    return oracle.sample(split, t, oracle.rows(f"{group}/data_sample_index", t))[0]


def fisher_information(
    oracle: Oracle, name: str, regime: str, t: int, classes: str, batch: int = 0
) -> Parameters:
    """Mean over samples of Σ_c p_c (∂ log p_c)², or of the predicted class; a linear model's J is θ0's.

    With a batch's size: its sum of Σ_c √p_c ∂ log p_c is squared instead.
    """
    base = oracle.theta0 if is_linear(regime) else oracle.tuned(regime, t)
    x = inputs(oracle, f"merging/{name}/{regime}", t)
    z = oracle.through(regime, oracle.tau(regime, t), x, t)

    def log_p(one: Tensor) -> Tensor:
        return log_softmax(oracle.logits(t, one[None])[0], 0)

    p, slopes = vmap(log_p)(z).exp(), vmap(jacrev(log_p))(z)  # [n, C], [n, C, width]
    if classes == "predicted":
        rows, best = torch.arange(len(z)), p.argmax(1)
        slopes = slopes[rows, best][:, None]
    else:
        slopes = slopes * p.sqrt()[:, :, None]

    def product(theta: Parameters, one: Tensor, slope: Tensor) -> Tensor:
        return (oracle.read(theta, one[None], t)[0] * slope).sum()

    found = {name: torch.zeros_like(v) for name, v in base.items()}
    if batch:
        for part, slope in zip(x.split(batch), slopes.sum(1).split(batch), strict=True):

            def summed(theta: Parameters, part: Tensor = part, slope: Tensor = slope) -> Tensor:
                return (oracle.read(theta, part, t) * slope).sum()

            for name, g in grad(summed)(base).items():
                found[name] += g.detach().square() / len(x)
        return found
    for c in range(slopes.shape[1]):
        for part, slope in zip(x.split(CHUNK), slopes[:, c].split(CHUNK), strict=True):
            if oracle.of_texts:  # whose masks vmap cannot look at
                both = zip(part, slope, strict=True)
                every = [grad(product)(base, one, direction) for one, direction in both]
                gradients = {name: torch.stack([one[name] for one in every]) for name in base}
            else:
                gradients = vmap(grad(product), (None, 0, 0))(base, part, slope)
            for name, g in gradients.items():
                found[name] += g.detach().square().sum(0) / len(x)
    return found


@cache
def _informations(oracle: Oracle, name: str, regime: str, classes: str, batch: int) -> list[Parameters]:
    return [fisher_information(oracle, name, regime, t, classes, batch) for t in range(len(oracle.tasks))]


def informations(oracle: Oracle, name: str, regime: str, told: Settings) -> list[Parameters]:
    batch = int(told["batch"]) if told.get("squares", "sample") == "batch" else 0
    return _informations(oracle, name, regime, told["fisher"], batch)


def fisher(oracle: Oracle, name: str, regime: str, told: Settings) -> Parameters:
    every = informations(oracle, name, regime, told)
    above = {key: torch.zeros_like(v) for key, v in oracle.theta0.items()}
    below = {key: torch.zeros_like(v) for key, v in oracle.theta0.items()}
    for t, information in enumerate(every):
        weight = 1 / float(flat(information).norm()) if told["normalize"] else 1.0
        tau = oracle.tau(regime, t)
        for key, f in information.items():
            floored = f.clamp(min=told["floor"]) if t == 0 or told["floor_of"] == "all" else f
            above[key] += weight * floored * tau[key]
            below[key] += weight * floored
    return {key: above[key] / below[key] for key in above}


def layer_grams(oracle: Oracle, name: str, regime: str, t: int) -> Parameters:
    """XᵀX / rows of what every linear layer takes in, by its weight's name; padding aside."""
    base = oracle.theta0 if is_linear(regime) else oracle.tuned(regime, t)
    x = inputs(oracle, f"merging/{name}/{regime}", t)
    found: Parameters = {}
    hooks = []
    for module, layer in oracle.model.named_modules():
        if not isinstance(layer, torch.nn.Linear):
            continue

        def see(_: torch.nn.Module, given: tuple[Tensor], key: str = f"{module}.weight") -> None:
            rows = given[0]
            if oracle.of_texts and rows.ndim == 3 and rows.shape[1] == x.shape[1]:  # not a decoder's own
                rows = rows[x[:, :, 2].bool()]
            rows = rows.detach().flatten(0, -2)
            found[key] = rows.T @ rows / len(rows)

        hooks.append(layer.register_forward_pre_hook(see))
    with torch.no_grad():
        oracle.encode(base, x)
    for hook in hooks:
        hook.remove()
    return found


def regmean(oracle: Oracle, name: str, regime: str, told: Settings) -> Parameters:
    tasks = range(len(oracle.tasks))
    every, grams = (
        [oracle.tau(regime, t) for t in tasks],
        [layer_grams(oracle, name, regime, t) for t in tasks],
    )
    found = {key: torch.stack([tau[key] for tau in every]).mean(0) for key in oracle.theta0}
    for key in grams[0]:
        scaled = [
            told["off_diagonal"] * g + (1 - told["off_diagonal"]) * g.diag().diag()
            for g in (each[key] for each in grams)
        ]
        whole = torch.stack(scaled).sum(0)
        scale = whole.diag().clamp(min=1e-300).rsqrt()
        unit = whole * scale * scale[:, None]
        change = torch.stack([(tau[key] - found[key]) @ g for tau, g in zip(every, scaled, strict=True)]).sum(
            0
        )
        # Directions that no input tells of keep the mean; where there are none, this is (Σ τ Ĝ)(Σ Ĝ)⁻¹.
        found[key] = (
            found[key] + (change * scale) @ torch.linalg.pinv(unit, rtol=1e-6, hermitian=True) * scale
        )
    return found


@cache
def learnt(oracle: Oracle, method: str, regime: str) -> tuple[Tensor, list[float]]:
    """Coefficients [T,S] as the merged model has them, and each step's entropy: Adam through the merge."""
    told = oracle.inputs.config["merging"][method]
    names = (texts if oracle.of_texts else draws).in_order(oracle.theta0)
    tasks, split, size = range(len(oracle.tasks)), told["inputs"], told["batch"]
    every = [oracle.tau(regime, t) for t in tasks]
    columns = len(names) if told["granularity"] == "layer" else 1

    def used(each: Tensor) -> Tensor:
        return (each.clamp(0, 1) if told["clamp"] else each).expand(-1, len(names))

    def entropy(each: Tensor, batches: list[Tensor]) -> Tensor:
        factors = dict(zip(names, used(each).unbind(1), strict=True))
        step = {  # in θ0's order, which jvp asks for
            name: torch.stack([factors[name][t] * every[t][name] for t in tasks]).sum(0)
            for name in oracle.theta0
        }
        total = torch.zeros((), dtype=torch.double)
        for t, x in enumerate(batches):
            if is_linear(regime):
                z = torch.stack(oracle.tangent(step, x, t)).sum(0)
            else:
                z = oracle.read({name: oracle.theta0[name] + step[name] for name in names}, x, t)
            log_p = log_softmax(oracle.logits(t, z), 1)
            p = log_p.exp()
            logarithm = (p + told["epsilon"]).log() if told["epsilon"] else log_p
            total = total - (p * logarithm).sum(1).mean()
        return total

    rows = []
    for t, task in enumerate(oracle.tasks):
        count = oracle.count(split, t)
        purpose = f"adamerging/{split}/{task}"
        rows.append(draws.batches(oracle.inputs.seed(), purpose, count, told["steps"] * size))
    coefficients = torch.full((len(tasks), columns), float(told["start"]), dtype=torch.double)
    adam, seen = torch.optim.Adam([coefficients], lr=told["learning_rate"]), []
    for number in range(told["steps"]):
        part = slice(number * size, (number + 1) * size)
        batches = [oracle.sample(split, t, rows[t][part])[0] for t in tasks]
        coefficients.grad, value = grad_and_value(entropy)(coefficients, batches)
        adam.step()
        seen.append(float(value))
    return used(coefficients)[:, :columns].clone(), seen


def adamerging(oracle: Oracle, method: str, regime: str, told: Settings) -> Parameters:
    names = (texts if oracle.of_texts else draws).in_order(oracle.theta0)
    factors = learnt(oracle, method, regime)[0].expand(-1, len(names))
    every = [oracle.tau(regime, t) for t in range(len(oracle.tasks))]
    rows = {name: factors[:, i] for i, name in enumerate(names)}
    return {
        name: torch.stack([a * tau[name] for a, tau in zip(rows[name], every, strict=True)]).sum(0)
        for name in oracle.theta0
    }


def _stitched(method: str, oracle: Oracle, name: str, regime: str, told: Settings) -> Parameters:
    return masks.stitched(oracle, name, method, regime, told)


def joint(oracle: Oracle, name: str, regime: str, _: Settings) -> Parameters:
    """Of the model trained on all tasks together, which lies where the run says."""
    told = text(oracle.results[f"merging/{name}/{regime}"].attrs["checkpoint"]).split("/")
    return {key: v - oracle.theta0[key] for key, v in oracle.joint(*told).items()}


METHODS: dict[str, Callable[[Oracle, str, str, Settings], Parameters]] = {
    "fisher": fisher,
    "regmean": regmean,
    "adamerging": adamerging,
    **{method: partial(_stitched, method) for method in masks.METHODS},
    "joint": joint,
    "tangent": joint,
}


def checks(oracle: Oracle, name: str, method: str, told: Settings) -> Iterator[Check]:
    """Of what /merging/NAME has of its own."""
    if method == "fisher":
        yield from _of_fisher(oracle, name, told)
    if method == "adamerging":
        yield from _of_adamerging(oracle, name)
    if method in masks.METHODS:
        yield from masks.checks(oracle, name, method, told)


def _of_fisher(oracle: Oracle, method: str, told: Settings) -> Iterator[Check]:
    group = f"merging/{method}"

    def measure(name: str, again: Callable[[Tensor], float], part: float, floor: float) -> Check:
        def one(place: Place) -> Reading:
            regime, t = place
            found = again(flat(informations(oracle, method, regime, told)[t]))
            return relative(stored(oracle, group, name, place), found, part, floor)

        return Check(group, name, places(oracle, group, name), one)

    yield measure("norm", lambda f: float(f.norm()), 1e-3, 0.0)
    yield measure("floored", lambda f: float((f < told["floor"]).double().mean()), 0.0, 2e-3)


def _of_adamerging(oracle: Oracle, method: str) -> Iterator[Check]:
    group = f"merging/{method}"

    def coefficient(place: Place) -> Reading:
        regime, t, s = place
        again = float(learnt(oracle, method, regime)[0][t, s])
        return relative(stored(oracle, group, "lambda", place), again, 0, 2e-3)

    def entropy(place: Place) -> Reading:
        regime, step = place
        return relative(
            stored(oracle, group, "entropy", place), learnt(oracle, method, regime)[1][step], 2e-3
        )

    yield Check(group, "lambda", places(oracle, group, "lambda"), coefficient)
    yield Check(group, "entropy", places(oracle, group, "entropy"), entropy)
