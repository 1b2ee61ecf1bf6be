# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merged models again: τ by the methods' formulas on whole vectors, then accuracies along it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import torch

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.means import normalised
from taugrid_analysis.quantities.merging import data_recompute, formulas
from taugrid_analysis.quantities.merging.formulas import Settings
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
from taugrid_analysis.recompute.common import each_place
from taugrid_analysis.recompute.models import SPLITS, Right, accuracies, chosen_row, merged_tasks, right_along
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat


def merged(method: str, settings: Settings, every: list[Parameters]) -> Parameters:
    """τ of a method that is_taken(), of these vectors."""
    return calibrated(_merged(method, settings, every), settings, every)


def calibrated(tau: Parameters, settings: Settings, every: list[Parameters]) -> Parameters:
    """What a method made of these vectors, with singular values as its section says."""
    least = settings.get("calibration", 0)
    if least == 0:
        return tau
    for name, x in tau.items():
        if x.dim() == 2 and x.numel():
            deltas = [each[name].double().numpy() for each in every]
            tau[name] = torch.tensor(formulas.calibrated(x.double().numpy(), deltas, least)).to(x.dtype)
    return tau


def _merged(method: str, settings: Settings, every: list[Parameters]) -> Parameters:
    first = every[0]
    if settings.get("space") == "knots":
        arrays = [{name: x.double().numpy() for name, x in tau.items()} for tau in every]
        tensors = formulas.in_knots(arrays, settings, formulas.WHOLE[method])
        return {name: torch.tensor(tensors[name]).to(start.dtype) for name, start in first.items()}
    if method in formulas.WHOLE:
        whole = formulas.WHOLE[method](np.stack([flat(tau).numpy() for tau in every]), settings)
        return _cut(whole, first)
    by_tensor = formulas.BY_TENSOR[method]
    return {
        name: torch.tensor(by_tensor(name, [tau[name].numpy() for tau in every], settings)).view_as(start)
        for name, start in first.items()
    }


def _cut(whole: Array, like: Parameters) -> Parameters:
    parts = torch.tensor(whole).split([v.numel() for v in like.values()])
    return {k: part.view_as(v) for (k, v), part in zip(like.items(), parts, strict=True)}


def _with_lambda(oracle: Oracle, name: str, regime: str, settings: Settings) -> Settings:
    """With the λ of the masks of those tasks that are merged, where the method has masks."""
    if settings.get("method", name) not in formulas.BEFORE_MASKS:
        return settings
    chosen = f"merging/{name}/{regime}/tall_lambda"
    if chosen in oracle.results:
        return settings | {"tall_lambda": oracle.results[chosen][()][merged_tasks(oracle, regime)]}
    return settings | {"tall_lambda": settings["tall_lambdas"][0]}


def _masks(oracle: Oracle, name: str, method: str, settings: Settings) -> Iterator[Check]:
    """Each task's λ: masks on its own validation points, and the best of them."""
    group = f"merging/{name}"
    if method not in formulas.BEFORE_MASKS or settings.get("scope", "vector") != "vector":
        return

    @lru_cache(2)
    def before(regime: str) -> tuple[Array, Array]:
        tau = np.stack([flat(oracle.tau(regime, t)).numpy() for t in merged_tasks(oracle, regime)])
        return tau, formulas.BEFORE_MASKS[method](tau, settings)

    def mask(regime: str, t: int, tall_lambda: float) -> Array:
        tau, whole = before(regime)
        return formulas.claimed(tau[[merged_tasks(oracle, regime).index(t)]], whole, tall_lambda)[0]

    def accuracy(place: Place) -> Reading:
        regime, t, i = place
        kept = mask(regime, t, float(oracle.results[f"{group}/{regime}/mask_lambda"][i]))
        tau = _cut(np.where(kept, before(regime)[1], 0), oracle.tau(regime, t))
        right = right_along(oracle, regime, tau, 1.0, t, group, "validation")
        return share(stored(oracle, group, "mask_accuracy", place), float(right.mean()), len(right))

    def density(place: Place) -> Reading:
        regime, t = place
        kept = mask(regime, t, stored(oracle, group, "tall_lambda", place))
        return relative(stored(oracle, group, "mask_density", place), float(kept.mean()), 1e-4)

    def best(place: Place) -> Reading:
        regime, t = place
        node = oracle.results[f"{group}/{regime}"]
        again = node["mask_lambda"][int(np.argmax(node["mask_accuracy"][t]))]
        return exact(stored(oracle, group, "tall_lambda", place), float(again))

    for what, measure in (("mask_accuracy", accuracy), ("mask_density", density), ("tall_lambda", best)):
        every = [place for place in places(oracle, group, what) if place[1] in merged_tasks(oracle, place[0])]
        if every:
            yield Check(group, what, every, measure)


def checks(oracle: Oracle) -> Iterator[Check]:
    settings = oracle.inputs.config.get("merging", {})

    @lru_cache(2)
    def vector(name: str, regime: str) -> Parameters:
        method = settings[name].get("method", name)
        every = [oracle.tau(regime, t) for t in merged_tasks(oracle, regime)]
        if method in data_recompute.METHODS:
            tau = data_recompute.METHODS[method](oracle, name, regime, settings[name])
            return calibrated(tau, settings[name], every)
        return merged(method, _with_lambda(oracle, name, regime, settings[name]), every)

    for name in names(oracle, "merging"):
        group, section = f"merging/{name}", settings.get(name, {})
        method = section.get("method", name)  # the name is the method's, or stands for it
        yield from _choice(oracle, group)
        yield from data_recompute.checks(oracle, name, method, section)
        yield from _masks(oracle, name, method, section)
        if not is_taken(method, section):
            continue
        for split in SPLITS:
            for check in accuracies(oracle, group, f"{split}_accuracy", _right(oracle, name, split, vector)):
                check.places[:] = [
                    place for place in check.places if place[-1] in merged_tasks(oracle, place[0])
                ]
                yield check


def is_taken(method: str, settings: Settings) -> bool:
    """Whether τ can be made again, of the vectors alone or with the tasks' data."""
    return method in data_recompute.METHODS or formulas.has(method, settings)


def _right(oracle: Oracle, name: str, split: str, vector: Callable[[str, str], Parameters]) -> Right:
    def right(place: Place) -> Array:
        regime, a, t = place
        group = f"merging/{name}"
        alpha = float(oracle.results[f"{group}/{regime}/alpha"][a])
        return right_along(oracle, regime, vector(name, regime), alpha, t, group, split)

    return right


def _choice(oracle: Oracle, group: str) -> Iterator[Check]:
    """What follows from the curves: the coefficient by validation points, and its accuracies."""

    def follows(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            node, single = oracle.results[f"{group}/{place[0]}"], oracle.results[f"single_task/{place[0]}"]
            best = chosen_row(node["validation_accuracy"][()], single["validation_accuracy"][()])
            row = node["test_accuracy"][best]
            again = {
                "coefficient": node["alpha"][best],
                "accuracy": row[place[1]] if len(place) > 1 else np.nan,
                "absolute": np.nanmean(row),
                "normalized": np.nanmean(normalised(row, single["accuracy"][()])),
            }[name]
            return exact(node[name][tuple(place[1:])], again)

        return measure

    for name in ("coefficient", "accuracy", "absolute", "normalized"):
        yield from each_place(oracle, group, name, follows(name))
