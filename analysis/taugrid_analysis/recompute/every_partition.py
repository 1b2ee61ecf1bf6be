# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""All partitions of a few tasks again: models merged of their bases, and a basis on another task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from taugrid_analysis.recompute.bases import basis_of
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
from taugrid_analysis.recompute.merging import Settings, is_of_vectors, merged
from taugrid_analysis.recompute.models import chosen_means, output_along, prefix_of
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat, load, parameters
from taugrid_analysis.records import Array

GROUP = "every_partition"
SLOW = 10  # places of one quantity: each is a merge
JOINT = {"standard": "multitask", "linear": "multitask_linear"}


def checks(oracle: Oracle) -> Iterator[Check]:
    told = oracle.inputs.config.get("bases", {})
    outside = dict(told.get("merge_out", {}))
    for method in names(oracle, GROUP):
        inside = dict(told.get("partitions", {}).get(method, {}))
        yield from _follows(oracle, f"{GROUP}/{method}")
        known = method == "joint" or is_of_vectors(method, inside)
        if known and is_of_vectors(outside.get("method", ""), outside):
            yield from _models(oracle, method, inside, outside)


def _models(oracle: Oracle, method: str, inside: Settings, outside: Settings) -> Iterator[Check]:
    group = f"{GROUP}/{method}"

    @cache
    def basis(regime: str, members: tuple[int, ...]) -> Parameters:
        if method != "joint" or len(members) == 1:
            held = np.isin(np.arange(len(oracle.tasks)), members)
            return basis_of(oracle, regime, inside | {"method": method}, held)
        name = "+".join(oracle.tasks[t] for t in members)
        tuned = parameters(load(oracle.inputs.run / "checkpoints" / JOINT[regime] / name, oracle.of_texts))
        return {key: v - oracle.theta0[key] for key, v in tuned.items()}

    def member(regime: str, kept: Array) -> tuple[int, ...]:
        return tuple(int(t) for t in oracle.results[f"{group}/{regime}/member"][()][kept])

    def right(regime: str, tau: Parameters, alpha: float, of: tuple[int, ...], t: int, split: str) -> Array:
        x, y = oracle.points(f"{group}/{regime}/{prefix_of(split)}sample_index", t, split)
        output = output_along(oracle, regime, tau, alpha, of, x, t)
        return np.asarray(oracle.right(t, oracle.logits(t, output), y).numpy())

    @cache
    def direction(regime: str, p: int) -> Parameters:
        labels = oracle.results[f"{group}/{regime}/labels"][p]
        every = [basis(regime, member(regime, labels == c)) for c in range(labels.max() + 1)]
        return merged(outside["method"], outside, every)

    def model(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, p, *alpha, i = place
            node = oracle.results[f"{group}/{regime}"]
            times = float(node["alpha"][alpha[0]] if alpha else node["coefficient"][p])
            every = member(regime, np.ones(len(node["member"]), dtype=bool))
            split = "validation" if alpha else "test"
            found = right(regime, direction(regime, p), times, every, every[i], split)
            return share(stored(oracle, group, name, place), float(found.mean()), len(found))

        return measure

    def cosine(place: Place) -> Reading:
        regime, h, c = place
        node = oracle.results[f"{group}/{regime}"]
        tau, found = (
            flat(oracle.tau(regime, int(node["other"][h]))),
            flat(basis(regime, members_of(regime, c))),
        )
        again = float(tau @ found / (tau.norm() * found.norm()))
        return relative(stored(oracle, group, "cosine", place), again, floor=2e-5)

    def members_of(regime: str, c: int) -> tuple[int, ...]:
        return member(regime, oracle.results[f"{group}/{regime}/cluster"][c].astype(bool))

    def held(split: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, h, c, a = place
            node, of = oracle.results[f"{group}/{regime}"], members_of(regime, c)
            alpha, t = float(node["held_alpha"][a]), int(node["other"][h])
            found = right(regime, basis(regime, of), alpha, of, t, split)
            value = stored(oracle, group, "held_test" if split == "test" else "held_validation", place)
            return share(value, float(found.mean()), len(found))

        return measure

    measures = {
        "accuracy": model("accuracy"),
        "validation_accuracy": model("validation_accuracy"),
        "cosine": cosine,
        "held_test": held("test"),
        "held_validation": held("validation"),
    }
    for name, measure in measures.items():
        every = places(oracle, group, name)
        if every:
            yield Check(group, name, every, measure, SLOW)


def _follows(oracle: Oracle, group: str) -> Iterator[Check]:
    """What is chosen by validation points or by cosines, and its means."""

    def chosen(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, p = place
            node, single = oracle.results[f"{group}/{regime}"], oracle.results[f"single_task/{regime}"]
            validation, accuracy = node["validation_accuracy"][p], node["accuracy"][p]
            again = chosen_means(node["alpha"][()], validation, accuracy, single, node["member"][()])
            return exact(node[name][p], again[name])

        return measure

    for name in ("coefficient", "absolute", "normalized"):
        yield Check(group, name, places(oracle, group, name), chosen(name))

    def nearest(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, h, p = place
            node = oracle.results[f"{group}/{regime}"]
            labels, sets = node["labels"][p], node["cluster"][()].astype(bool)
            own = [int(np.flatnonzero((sets == (labels == c)).all(1))[0]) for c in range(labels.max() + 1)]
            c = own[int(np.argmax(node["cosine"][h][own]))]
            best, alpha = int(np.argmax(node["held_validation"][h, c])), node["held_alpha"][()]
            again = {
                "nearest": c,
                "found": node["cosine"][h, c] >= float(node.attrs["threshold"]),
                "one_shot": node["held_test"][h, c, int(np.flatnonzero(alpha == 1)[0])],
                "tuned": node["held_test"][h, c, best],
                "chosen_alpha": alpha[best],
            }[name]
            return exact(node[name][h, p], float(again))

        return measure

    for name in ("nearest", "found", "one_shot", "tuned", "chosen_alpha"):
        every = places(oracle, group, name)
        if every:
            yield Check(group, name, every, nearest(name))
