# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merging methods that need data, by their formulas: τ of tasks' own models, or of models with bases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, grad_and_value, jacrev, vmap
from torch.nn.functional import log_softmax
from transformers.pytorch_utils import Conv1D

from taugrid_analysis.quantities.merging import masks
from taugrid_analysis.quantities.merging.oracle_models import Model
from taugrid_analysis.recompute import draws, texts
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat

Settings = dict[str, Any]
Inputs = Callable[[int], Tensor]  # what a method took of a task
CHUNK = 16  # samples whose gradients are held together


def drawn(oracle: Oracle, settings: Settings, t: int) -> Tensor:
    """The inputs of task t that a method takes, by the run's seed."""
    split, source = settings["inputs"], oracle.sources[t]
    rows = draws.sample(oracle.inputs.seed(), split, source, oracle.count(split, t), settings["points"])
    return oracle.sample(split, t, rows)[0]


def fisher_information(model: Model, given: Inputs, classes: str, batch: int = 0) -> Parameters:
    """Mean over the samples of all its tasks of Σ_c p_c (∂ log p_c)², or of the predicted class.

    A linear model's J is θ0's. With a batch's size: its sum of Σ_c √p_c ∂ log p_c is squared instead. Of
    "entropy" what is squared is ∂ Σ_c p_c log p_c, p with its own slope.
    """
    every = [given(t) for t in model.tasks]
    information = {name: torch.zeros_like(v) for name, v in model.oracle.theta0.items()}
    for t, x in zip(model.tasks, every, strict=True):
        for name, v in _information(model, t, x, classes, batch).items():
            information[name] += v * len(x) / sum(map(len, every))
    return information


def _information(model: Model, t: int, x: Tensor, classes: str, batch: int) -> Parameters:
    """The Fisher information of one task's samples."""
    oracle, base, statistics = model.oracle, model.theta(), model.statistics()
    z = model.output(x, t)

    def log_p(row: Tensor) -> Tensor:
        return log_softmax(oracle.logits(t, row[None])[0], 0)

    def of_entropy(row: Tensor) -> Tensor:
        return (log_p(row).exp() * log_p(row)).sum()

    p, slopes = vmap(log_p)(z).exp(), vmap(jacrev(log_p))(z)  # [n, C], [n, C, width]
    if classes == "entropy":
        slopes = vmap(jacrev(of_entropy))(z)[:, None]
    elif classes == "predicted":
        rows, best = torch.arange(len(z)), p.argmax(1)
        slopes = slopes[rows, best][:, None]
    else:
        slopes = slopes * p.sqrt()[:, :, None]

    def product(theta: Parameters, point: Tensor, slope: Tensor) -> Tensor:
        return (oracle.read(statistics | theta, point[None], t)[0] * slope).sum()

    information = {name: torch.zeros_like(v) for name, v in base.items()}
    if batch:
        for part, slope in zip(x.split(batch), slopes.sum(1).split(batch), strict=True):

            def summed(theta: Parameters, part: Tensor = part, slope: Tensor = slope) -> Tensor:
                return (oracle.read(statistics | theta, part, t) * slope).sum()

            for name, g in grad(summed)(base).items():
                information[name] += g.detach().square() / len(x)
        return information
    for c in range(slopes.shape[1]):
        for part, slope in zip(x.split(CHUNK), slopes[:, c].split(CHUNK), strict=True):
            if oracle.of_texts:  # whose masks vmap cannot look at
                both = zip(part, slope, strict=True)
                every = [grad(product)(base, point, direction) for point, direction in both]
                gradients = {name: torch.stack([gradient[name] for gradient in every]) for name in base}
            else:
                gradients = vmap(grad(product), (None, 0, 0))(base, part, slope)
            for name, g in gradients.items():
                information[name] += g.detach().square().sum(0) / len(x)
    return information


def batch_of(settings: Settings) -> int:
    return int(settings["batch"]) if settings.get("squares", "sample") == "batch" else 0


def by_fisher(models: list[Model], every: list[Parameters], settings: Settings) -> Parameters:
    above = {key: torch.zeros_like(v) for key, v in models[0].tau.items()}
    below = {key: torch.zeros_like(v) for key, v in models[0].tau.items()}
    for place, (model, information) in enumerate(zip(models, every, strict=True)):
        weight = 1 / float(flat(information).norm()) if settings["normalize"] else 1.0
        for key, f in information.items():
            floored = f.clamp(min=settings["floor"]) if place == 0 or settings["floor_of"] == "all" else f
            above[key] += weight * floored * model.tau[key]
            below[key] += weight * floored
    return {key: above[key] / below[key] for key in above}


def fisher(models: list[Model], settings: Settings, given: Inputs) -> Parameters:
    every = [fisher_information(model, given, settings["fisher"], batch_of(settings)) for model in models]
    return by_fisher(models, every, settings)


def layer_grams(model: Model, given: Inputs) -> Parameters:
    """XᵀX / rows of what every linear layer takes in, by its weight's name; padding aside."""
    oracle = model.oracle
    grams: Parameters = {}
    rows_of: dict[str, int] = {}
    for t in model.tasks:
        x = given(t)
        hooks = []
        for module, layer in oracle.model.named_modules():
            if not isinstance(layer, torch.nn.Linear | Conv1D):
                continue

            def see(
                _: torch.nn.Module, taken: tuple[Tensor], key: str = f"{module}.weight", x: Tensor = x
            ) -> None:
                rows = taken[0]
                if oracle.of_texts and rows.ndim == 3 and rows.shape[1] == x.shape[1]:  # not a decoder's own
                    rows = rows[x[:, :, 2].bool()]
                rows = rows.detach().flatten(0, -2)
                grams[key] = rows.T @ rows + grams.get(key, 0)
                rows_of[key] = len(rows) + rows_of.get(key, 0)

            hooks.append(layer.register_forward_pre_hook(see))
        with torch.no_grad():
            oracle.encode(model.statistics() | model.theta(), x)
        for hook in hooks:
            hook.remove()
    return {key: gram / rows_of[key] for key, gram in grams.items()}


def regmean(models: list[Model], settings: Settings, given: Inputs) -> Parameters:
    every, grams = (
        [texts.as_linear(model.oracle.model, model.tau) for model in models],
        [layer_grams(model, given) for model in models],
    )
    merged = {key: torch.stack([tau[key] for tau in every]).mean(0) for key in every[0]}
    for key in grams[0]:
        scaled = [
            settings["off_diagonal"] * g + (1 - settings["off_diagonal"]) * g.diag().diag()
            for g in (gram[key] for gram in grams)
        ]
        whole = torch.stack(scaled).sum(0)
        scale = whole.diag().clamp(min=1e-300).rsqrt()
        unit = whole * scale * scale[:, None]
        change = torch.stack(
            [(tau[key] - merged[key]) @ g for tau, g in zip(every, scaled, strict=True)]
        ).sum(0)
        # Directions that no input tells of keep the mean; where there are none, this is (Σ τ Ĝ)(Σ Ĝ)⁻¹.
        merged[key] = (
            merged[key] + (change * scale) @ torch.linalg.pinv(unit, rtol=1e-6, hermitian=True) * scale
        )
    return texts.as_linear(models[0].oracle.model, merged)


def coefficients(models: list[Model], settings: Settings) -> tuple[Tensor, list[float]]:
    """Coefficients [T,S] as the merged model has them, and each step's entropy: Adam through the merge."""
    oracle = models[0].oracle
    names = (texts if oracle.of_texts else draws).in_order(oracle.theta0)
    split, size, tasks = settings["inputs"], settings["batch"], [t for model in models for t in model.tasks]
    columns = len(names) if settings["granularity"] == "layer" else 1

    def used(values: Tensor) -> Tensor:
        return (values.clamp(0, 1) if settings["clamp"] else values).expand(-1, len(names))

    def entropy(values: Tensor, batches: list[Tensor]) -> Tensor:
        factors = dict(zip(names, used(values).unbind(1), strict=True))
        step = {  # in θ0's order, which jvp asks for
            name: torch.stack(
                [a * model.tau[name] for a, model in zip(factors[name], models, strict=True)]
            ).sum(0)
            for name in oracle.theta0
        }
        total = torch.zeros((), dtype=torch.double)
        for t, x in zip(tasks, batches, strict=True):
            if models[0].linear:
                z = torch.stack(oracle.tangent(step, x, t)).sum(0)
            else:
                z = oracle.read({name: oracle.theta0[name] + step[name] for name in names}, x, t)
            log_p = log_softmax(oracle.logits(t, z), 1)
            p = log_p.exp()
            logarithm = (p + settings["epsilon"]).log() if settings["epsilon"] else log_p
            total = total - (p * logarithm).sum(1).mean()
        return total

    rows = []
    for t in tasks:
        count = oracle.count(split, t)
        purpose = f"adamerging/{split}/{oracle.tasks[t]}"
        rows.append(draws.batches(oracle.inputs.seed(), purpose, count, settings["steps"] * size))
    lambdas = torch.full((len(models), columns), float(settings["start"]), dtype=torch.double)
    adam, seen = torch.optim.Adam([lambdas], lr=settings["learning_rate"]), []
    for number in range(settings["steps"]):
        part = slice(number * size, (number + 1) * size)
        batches = [oracle.sample(split, t, its[part])[0] for t, its in zip(tasks, rows, strict=True)]
        lambdas.grad, value = grad_and_value(entropy)(lambdas, batches)
        adam.step()
        seen.append(float(value))
    return used(lambdas)[:, :columns].clone(), seen


def adamerging(models: list[Model], settings: Settings, _: Inputs) -> Parameters:
    return by_coefficients(models, coefficients(models, settings)[0])


def by_coefficients(models: list[Model], every: Tensor) -> Parameters:
    oracle = models[0].oracle
    names = (texts if oracle.of_texts else draws).in_order(oracle.theta0)
    rows = dict(zip(names, every.expand(-1, len(names)).unbind(1), strict=True))
    return {
        name: torch.stack([a * model.tau[name] for a, model in zip(rows[name], models, strict=True)]).sum(0)
        for name in oracle.theta0
    }


def stitched(method: str, models: list[Model], settings: Settings, _: Inputs) -> Parameters:
    """Stitches the models of one cluster, where the method has clusters."""
    every = [masks.mask(model, settings)[0] for model in models]
    return masks.stitch(masks.to_stitch(every, method, [0] * len(every), settings), models)


FORMULAS: dict[str, Callable[[list[Model], Settings, Inputs], Parameters]] = {
    "fisher": fisher,
    "regmean": regmean,
    "adamerging": adamerging,
    **{method: partial(stitched, method) for method in masks.METHODS},
}
