# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity again, by forward hooks on transformers' models, from whole features in double."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, jvp

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.recompute import text_layers
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact, names, pairs, places, stored
from taugrid_analysis.recompute.oracle import PART, Oracle, Parameters

GROUP, ADDITION, NEGATION = "linearity", "layer_addition", "layer_negation"
AVERAGES = "layer_averages"
DRAWN = ("cosine", "coefficient")  # the quantities whose histograms figures draw
DUST = 1e-12  # of a feature's length: double precision rounds to a ten-thousandth of it
SLOW = 12  # numbers of one quantity: each takes passes of whole models


def layers(oracle: Oracle, p: Parameters, x: Tensor) -> list[Tensor]:
    """The embedding's output, every block's [n, …], and the encoder's [n, width]."""
    if oracle.of_texts:
        return text_layers.states(oracle.model, x, lambda: oracle.encode(p, x))
    if oracle.is_net:
        known = oracle.stored_statistics | p
        every: list[Tensor] = functional_call(oracle.model, known, (x,), {"every": True})
        return every
    tower = oracle.model.vision_model
    outputs: list[Tensor] = []

    def keep(_module: torch.nn.Module, _inputs: object, output: object) -> None:
        outputs.append(output[0] if isinstance(output, tuple) else output)  # type: ignore[arg-type]

    watched = [tower.pre_layrnorm, *tower.encoder.layers]
    handles = [module.register_forward_hook(keep) for module in watched]
    try:
        last = oracle.encode(p, x)
    finally:
        for handle in handles:
            handle.remove()
    return [*outputs, last]


def features(oracle: Oracle, regime: str, edits: dict[int, float], x: Tensor) -> list[Tensor]:
    """The features of every layer at θ0 + Σ α τ, in the regime's function."""
    parts, step = [], oracle.step(regime, edits)
    theta = {k: v + step[k] for k, v in oracle.theta0.items()}
    theta |= oracle.edited_statistics(regime, tuple(edits.items()))
    for part in x.split(PART):
        if oracle.regime(regime).linear:
            both = jvp(lambda p, part=part: tuple(layers(oracle, p, part)), (oracle.theta0,), (step,))
            parts.append([(f + d).detach() for f, d in zip(both[0], both[1], strict=True)])
            continue
        with torch.no_grad():
            parts.append(layers(oracle, theta, part))
    return [torch.cat(layer) for layer in zip(*parts, strict=True)]


def _compared(oracle: Oracle, regime: str, edits: dict[int, float], x: Tensor) -> list[Tensor]:
    """The features whose linearity is measured: of a T5's encoder its tokens' mean."""
    states = features(oracle, regime, edits, x)
    if not oracle.of_texts:
        return states
    return [text_layers.feature(oracle.model, f, place, x) for place, f in enumerate(states)]


def _from(start: Tensor, x: Tensor) -> Tensor:
    """x − start; nothing where that is rounding alone, as of layers that no vector changes."""
    apart = x - start
    return apart * (apart.norm(dim=1, keepdim=True) > DUST * start.norm(dim=1, keepdim=True))


def _cosine(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(1) / (x.norm(dim=1) * y.norm(dim=1))


def _coefficient(u: Tensor, v: Tensor) -> Tensor:
    return (u * v).sum(1) / v.square().sum(1)


def of_points(features_of: list[Tensor], alpha: float) -> dict[str, Array]:
    """Every quantity of each point, of features [n, numbers] of θ0, θᵢ, θⱼ and the mixed model."""
    f0, fi, fj, u = features_of
    v = alpha * fi + (1 - alpha) * fj
    values = {
        "cosine": _cosine(u, v),
        "coefficient": _coefficient(u, v),
        "baseline": _cosine(fi, fj),
        "centred_cosine": _cosine(_from(f0, u), _from(f0, v)),
        "centred_coefficient": _coefficient(_from(f0, u), _from(f0, v)),
        "centred_baseline": _cosine(_from(f0, fi), _from(f0, fj)),
        "error": _from(v, u).norm(dim=1) / _from(fj, fi).norm(dim=1),
    }
    return {name: value.numpy() for name, value in values.items()}


def of_average(oracle: Oracle, regime: str, d: int) -> list[dict[str, Array]]:
    """Every quantity of each layer of equation 1's averages, at the points of the d-th data set."""
    group = oracle.results[f"{AVERAGES}/{regime}"]
    models = [int(k) for k in np.flatnonzero(group["sets"][d])]
    x, _ = oracle.points(f"{AVERAGES}/{regime}/sample_index", int(group["data"][d]))
    edits: list[Edits] = [{}, *({k: 1.0} for k in models), {k: 1 / len(models) for k in models}]
    by_layer = []
    for layer in zip(*(_compared(oracle, regime, edit, x) for edit in edits), strict=True):
        whole = _averaged([f.flatten(1) for f in layer])
        token = _averaged([f[:, 0] if f.ndim == 3 else f for f in layer])
        by_layer.append(whole | {f"class_{name}": value for name, value in token.items()})
    return by_layer


def _averaged(features_of: list[Tensor]) -> dict[str, Array]:
    """Every quantity of features [n, numbers] of θ0, of each model and of the mean of weights."""
    f0, *models, u = features_of
    v = torch.stack(models).mean(dim=0)
    apart = [_from(b, a).square().sum(1) for place, a in enumerate(models) for b in models[:place]]
    values = {
        "cosine": _cosine(u, v),
        "coefficient": _coefficient(u, v),
        "baseline": torch.stack([_cosine(u, f) for f in models]).mean(dim=0),
        "centred_cosine": _cosine(_from(f0, u), _from(f0, v)),
        "centred_coefficient": _coefficient(_from(f0, u), _from(f0, v)),
        "centred_baseline": torch.stack([_cosine(_from(f0, u), _from(f0, f)) for f in models]).mean(dim=0),
        "error": _from(v, u).norm(dim=1) / torch.stack(apart).mean(dim=0).sqrt(),
    }
    return {name: value.numpy() for name, value in values.items()}


Edits = dict[int, float]


def of_mixture(
    oracle: Oracle, group: str, regime: str, tasks: Sequence[int], edits: Sequence[Edits], alpha: float
) -> list[dict[str, Array]]:
    """Every quantity of each layer, 0 … L + 1, at the points of all tasks; the class token's as class_….

    edits: of θᵢ, θⱼ and the mixed model.
    """
    sides: list[list[dict[str, Array]]] = []
    for t in tasks:
        x, _ = oracle.points(f"{group}/{regime}/sample_index", t)
        f0, fi, fj, u = (_compared(oracle, regime, edit, x) for edit in ({}, *edits))
        side = []
        for layer in zip(f0, fi, fj, u, strict=True):
            whole = of_points([f.flatten(1) for f in layer], alpha)
            token = of_points([f[:, 0] if f.ndim == 3 else f for f in layer], alpha)
            side.append(whole | {f"class_{name}": value for name, value in token.items()})
        sides.append(side)
    every = zip(*sides, strict=True)
    return [{name: np.concatenate([part[name] for part in parts]) for name in parts[0]} for parts in every]


def of_pair(oracle: Oracle, regime: str, p: int, alpha: float) -> list[dict[str, Array]]:
    i, j = pairs(oracle)[p]
    return of_mixture(oracle, GROUP, regime, (i, j), ({i: 1.0}, {j: 1.0}, {i: alpha, j: 1 - alpha}), alpha)


def of_sum(oracle: Oracle, regime: str, p: int, scale: float) -> list[dict[str, Array]]:
    """θ0 + λ(τᵢ + τⱼ) against θ0 + 2λτᵢ and θ0 + 2λτⱼ."""
    i, j = pairs(oracle)[p]
    edits = ({i: 2 * scale}, {j: 2 * scale}, {i: scale, j: scale})
    return of_mixture(oracle, ADDITION, regime, (i, j), edits, 0.5)


def of_negation(oracle: Oracle, regime: str, t: int, scale: float) -> list[dict[str, Array]]:
    """θ0 against θ0 ± λτ."""
    return of_mixture(oracle, NEGATION, regime, (t,), ({t: scale}, {t: -scale}, {}), 0.5)


MIXTURES = {GROUP: (of_pair, "alpha"), ADDITION: (of_sum, "lambda"), NEGATION: (of_negation, "lambda")}


def summary(values: Array) -> Array:
    """Mean, standard deviation of a sample, quartiles."""
    if np.isnan(values).any():
        return np.full(5, np.nan)
    return np.array([values.mean(), values.std(ddof=1), *np.quantile(values, [0.25, 0.5, 0.75])])


def checks(oracle: Oracle) -> Iterator[Check]:
    for group in (*MIXTURES, AVERAGES):
        yield from _checks(oracle, group)


def _checks(oracle: Oracle, group: str) -> Iterator[Check]:
    @cache
    def again(regime: str, first: int, *weight: int) -> list[dict[str, Array]]:
        if group == AVERAGES:
            return of_average(oracle, regime, first)
        of_one, axis = MIXTURES[group]
        return of_one(oracle, regime, first, float(oracle.results[f"{group}/{regime}/{axis}"][weight[0]]))

    def values(place: Place, name: str) -> Array:
        regime, first, row, *weight, _ = place
        layer = int(oracle.results[f"{group}/{regime}/layer"][row])
        return again(regime, first, *weight)[layer][name]

    def statistic(name: str) -> Callable[[Place], Reading]:
        """In single precision, of a difference from what all models share less is left."""
        part, floor = (1e-3, 2e-3) if "centred" in name or "error" in name else (1e-3, 2e-6)

        def measure(place: Place) -> Reading:
            value = float(summary(values(place, name))[place[-1]])
            spread = abs(1 - value) if place[-1] != 1 else abs(value)
            return Reading(stored(oracle, group, name, place), value, part * spread + floor)

        return measure

    def counts(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            """Points near an edge may fall to either side."""
            numbers = values(place, name)
            kind = "cosine" if name.endswith(("cosine", "baseline")) else "coefficient"
            edges = oracle.results[f"{group}/{place[0]}"].attrs[f"{kind}_edges"]
            numbers = numbers[np.isfinite(numbers)]
            inner = np.searchsorted(edges[1:-1], numbers, side="right")
            apart = np.abs(numbers[:, None] - edges[None, 1:-1]).min(axis=1)
            near = apart <= 1e-3 * np.abs(1 - numbers) + 2e-6  # as statistic() has it
            value = stored(oracle, group, f"{name}_histogram", place)
            return Reading(value, float((inner == place[-1]).sum()), float(near.sum()))

        return measure

    def passes(place: Place) -> Reading:
        """The task's own model and its partners', and of each pair a mixed model; of edits the same for each
        λ, and two of its own negations."""
        regime, t = place
        partners = sum(t in pair for pair in pairs(oracle))
        weights = len(oracle.results[f"{group}/{regime}/{MIXTURES[group][1]}"])
        seen = 1 + partners if partners else 0
        models = seen + partners * weights if group == GROUP else weights * (seen + partners + 2)
        return exact(stored(oracle, group, "passes", place), models)

    regimes = names(oracle, group)
    if not regimes:
        return
    quantities = [
        name.removesuffix("_histogram")
        for name in oracle.results[f"{group}/{regimes[0]}"]
        if name.endswith("_histogram")
    ]
    for name in quantities:
        yield Check(group, name, places(oracle, group, name), statistic(name), SLOW)
    for name in (name for name in quantities if name in DRAWN):
        bins = f"{name}_histogram"
        yield Check(group, bins, places(oracle, group, bins), counts(name), SLOW)
    yield Check(group, "passes", places(oracle, group, "passes"), passes)
