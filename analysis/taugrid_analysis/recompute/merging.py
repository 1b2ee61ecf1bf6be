# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merged models again: τ by the methods' formulas on whole vectors, then accuracies along it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from taugrid_analysis.recompute import data_methods, methods
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact, names, places
from taugrid_analysis.recompute.models import (
    SPLITS,
    Right,
    accuracies,
    chosen_row,
    merged_tasks,
    right_along,
)
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat
from taugrid_analysis.records import Array

Settings = dict[str, Any]


def _ties(tau: Array, told: Settings) -> Array:
    ones = np.ones(len(tau))
    return methods.ties(tau, ones, told["density"], told["cut"], told["merge"], told["zero_sign"])


def _trimmed(tau: Array, told: Settings) -> Array:
    kept = np.stack([methods.trimmed(one, told["density"], told["cut"]) for one in tau])
    if told["divide"] == "overlap":
        return np.asarray(kept.sum(0) / np.maximum((kept != 0).sum(0), 1))
    return np.asarray(kept.sum(0) / len(tau))


ELEMENTWISE: dict[str, Callable[[Array, Settings], Array]] = {
    "linear": lambda tau, _: np.asarray(tau.mean(0)),
    "task_arithmetic": lambda tau, told: np.asarray(tau.mean(0) if told["normalize"] else tau.sum(0)),
    "ties": _ties,
    "top_k": _trimmed,
    "consensus_ta": lambda tau, told: methods.consensus(
        tau, tau.sum(0), told["tall_lambda"], told["least_tasks"]
    ),
    "consensus_ties": lambda tau, told: methods.consensus(
        tau, _ties(tau, told), told["tall_lambda"], told["least_tasks"]
    ),
}
MATRICES: dict[str, Callable[[list[Array], Settings], Array]] = {
    "tsv_m": lambda deltas, _: methods.tsv_m(deltas),
    "iso_c": lambda deltas, _: methods.iso_c(deltas),
    "iso_cts": lambda deltas, told: methods.iso_cts(deltas, told["common_space"]),
}


def merged(method: str, told: Settings, every: list[Parameters]) -> Parameters:
    """τ of a method that is_taken(), of these vectors."""
    first = every[0]
    if method in ELEMENTWISE:
        whole = ELEMENTWISE[method](np.stack([flat(tau).numpy() for tau in every]), told)
        parts = torch.tensor(whole).split([v.numel() for v in first.values()])
        return {k: part.view_as(v) for (k, v), part in zip(first.items(), parts, strict=True)}
    found = {}
    for name, start in first.items():
        deltas = [np.asarray(tau[name].numpy()) for tau in every]
        averaged = start.ndim != 2 or any(part in name for part in told["exclude"])
        again = np.mean(deltas, 0) if averaged else MATRICES[method](deltas, told)
        found[name] = torch.tensor(again).view_as(start)
    return found


def checks(oracle: Oracle) -> Iterator[Check]:
    settings = oracle.inputs.config.get("merging", {})

    @lru_cache(2)
    def vector(name: str, regime: str) -> Parameters:
        method = settings[name].get("method", name)
        if method in data_methods.METHODS:
            return data_methods.METHODS[method](oracle, name, regime, settings[name])
        every = [oracle.tau(regime, t) for t in merged_tasks(oracle, regime)]
        return merged(method, settings[name], every)

    for name in names(oracle, "merging"):
        group, told = f"merging/{name}", settings.get(name, {})
        method = told.get("method", name)  # the name is the method's, or stands for it
        yield from _choice(oracle, group)
        yield from data_methods.checks(oracle, name, method, told)
        if not is_taken(method, told):
            continue
        for split in SPLITS:
            for check in accuracies(oracle, group, f"{split}_accuracy", _right(oracle, name, split, vector)):
                check.places[:] = [one for one in check.places if one[-1] in merged_tasks(oracle, one[0])]
                yield check


def is_of_vectors(method: str, told: Settings) -> bool:
    """is_taken(), and from the vectors alone."""
    return is_taken(method, told) and method not in data_methods.METHODS


def is_taken(method: str, told: Settings) -> bool:
    """Not DARE, whose draws are the program's own; slerp; and shares of each tensor."""
    if method in MATRICES or method in data_methods.METHODS:
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
        every = places(oracle, group, name)
        if every:
            yield Check(group, name, every, follows(name))
