# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merged models again: τ by the methods' formulas on whole vectors, then accuracies along it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.merging import data_recompute, formulas
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

Settings = dict[str, Any]


def _ties(tau: Array, told: Settings) -> Array:
    ones = np.ones(len(tau))
    return formulas.ties(tau, ones, told["density"], told["cut"], told["merge"], told["zero_sign"])


def _trimmed(tau: Array, told: Settings) -> Array:
    kept = np.stack([formulas.trimmed(one, told["density"], told["cut"]) for one in tau])
    if told["divide"] == "overlap":
        return np.asarray(kept.sum(0) / np.maximum((kept != 0).sum(0), 1))
    return np.asarray(kept.sum(0) / len(tau))


BEFORE_MASKS: dict[str, Callable[[Array, Settings], Array]] = {
    "consensus_ta": lambda tau, _: np.asarray(tau.sum(0)),
    "consensus_ties": _ties,
}


def _consensus(method: str, tau: Array, told: Settings) -> Array:
    whole = BEFORE_MASKS[method](tau, told)
    return formulas.consensus(tau, whole, told["tall_lambda"], told["least_tasks"])


ELEMENTWISE: dict[str, Callable[[Array, Settings], Array]] = {
    "linear": lambda tau, _: np.asarray(tau.mean(0)),
    "task_arithmetic": lambda tau, told: np.asarray(tau.mean(0) if told["normalize"] else tau.sum(0)),
    "ties": _ties,
    "top_k": _trimmed,
    **{name: partial(_consensus, name) for name in BEFORE_MASKS},
}
MATRICES: dict[str, Callable[[list[Array], Settings], Array]] = {
    "tsv_m": lambda deltas, _: formulas.tsv_m(deltas),
    "iso_c": lambda deltas, _: formulas.iso_c(deltas),
    "iso_cts": lambda deltas, told: formulas.iso_cts(deltas, told["common_space"]),
}


def merged(method: str, told: Settings, every: list[Parameters]) -> Parameters:
    """τ of a method that is_taken(), of these vectors."""
    first = every[0]
    if method in ELEMENTWISE:
        whole = ELEMENTWISE[method](np.stack([flat(tau).numpy() for tau in every]), told)
        return _cut(whole, first)
    found = {}
    for name, start in first.items():
        deltas = [np.asarray(tau[name].numpy()) for tau in every]
        found[name] = torch.tensor(_of_tensor(method, told, name, deltas)).view_as(start)
    return found


def _of_tensor(method: str, told: Settings, name: str, deltas: list[Array]) -> Array:
    if method == "slerp":
        a, b = (delta.ravel() for delta in deltas)
        return formulas.slerp(a, b, told["t"])
    averaged = deltas[0].ndim != 2 or any(part in name for part in told["exclude"])
    return np.asarray(np.mean(deltas, 0)) if averaged else MATRICES[method](deltas, told)


def _cut(whole: Array, like: Parameters) -> Parameters:
    parts = torch.tensor(whole).split([v.numel() for v in like.values()])
    return {k: part.view_as(v) for (k, v), part in zip(like.items(), parts, strict=True)}


def _with_lambda(oracle: Oracle, name: str, regime: str, told: Settings) -> Settings:
    """With the λ of the masks of those tasks that are merged, where the method has masks."""
    if told.get("method", name) not in BEFORE_MASKS:
        return told
    chosen = f"merging/{name}/{regime}/tall_lambda"
    if chosen in oracle.results:
        return told | {"tall_lambda": oracle.results[chosen][()][merged_tasks(oracle, regime)]}
    return told | {"tall_lambda": told["tall_lambdas"][0]}


def _masks(oracle: Oracle, name: str, method: str, told: Settings) -> Iterator[Check]:
    """Each task's λ: masks on its own validation points, and the best of them."""
    group = f"merging/{name}"
    if method not in BEFORE_MASKS or told.get("scope", "vector") != "vector":
        return

    @lru_cache(2)
    def before(regime: str) -> tuple[Array, Array]:
        tau = np.stack([flat(oracle.tau(regime, t)).numpy() for t in merged_tasks(oracle, regime)])
        return tau, BEFORE_MASKS[method](tau, told)

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
        every = [one for one in places(oracle, group, what) if one[1] in merged_tasks(oracle, one[0])]
        if every:
            yield Check(group, what, every, measure)


def checks(oracle: Oracle) -> Iterator[Check]:
    settings = oracle.inputs.config.get("merging", {})

    @lru_cache(2)
    def vector(name: str, regime: str) -> Parameters:
        method = settings[name].get("method", name)
        if method in data_recompute.METHODS:
            return data_recompute.METHODS[method](oracle, name, regime, settings[name])
        every = [oracle.tau(regime, t) for t in merged_tasks(oracle, regime)]
        return merged(method, _with_lambda(oracle, name, regime, settings[name]), every)

    for name in names(oracle, "merging"):
        group, told = f"merging/{name}", settings.get(name, {})
        method = told.get("method", name)  # the name is the method's, or stands for it
        yield from _choice(oracle, group)
        yield from data_recompute.checks(oracle, name, method, told)
        yield from _masks(oracle, name, method, told)
        if not is_taken(method, told):
            continue
        for split in SPLITS:
            for check in accuracies(oracle, group, f"{split}_accuracy", _right(oracle, name, split, vector)):
                check.places[:] = [one for one in check.places if one[-1] in merged_tasks(oracle, one[0])]
                yield check


def is_of_vectors(method: str, told: Settings) -> bool:
    """is_taken(), and from the vectors alone."""
    return is_taken(method, told) and method not in data_recompute.METHODS


def is_taken(method: str, told: Settings) -> bool:
    """Not DARE, whose draws are the program's own; slerp of models; and shares of each tensor."""
    if method == "slerp":
        return bool(told["of"] == "vectors")
    if method in MATRICES or method in data_recompute.METHODS:
        return True
    return method in ELEMENTWISE and told.get("scope", "vector") == "vector"


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
                "normalized": np.nanmean(row / single["accuracy"][()]),
            }[name]
            return exact(node[name][tuple(place[1:])], again)

        return measure

    for name in ("coefficient", "accuracy", "absolute", "normalized"):
        yield from each_place(oracle, group, name, follows(name))
