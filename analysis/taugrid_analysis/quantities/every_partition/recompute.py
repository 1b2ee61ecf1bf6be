# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""All partitions of a few tasks again: models merged of their bases, and a basis on another task.

And a basis subtracted, to forget a task of its cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import h5py
import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.bases.recompute import basis_of, merged_bases, merges_bases
from taugrid_analysis.quantities.merging import formulas
from taugrid_analysis.quantities.merging.formulas import Settings
from taugrid_analysis.quantities.negation.recompute import at_chosen_alpha, choice
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
from taugrid_analysis.recompute.models import (
    SPLITS,
    accuracies,
    chosen_means,
    right_at,
    rows_of,
)
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat
from taugrid_analysis.run.group import CHOSEN

GROUP, NEGATION = "every_partition", "partition_negation"
SLOW = 10  # places of one quantity: each is a merge
JOINT = {"standard": "multitask", "linear": "multitask_linear"}


def checks(oracle: Oracle) -> Iterator[Check]:
    settings = oracle.inputs.config.get("bases", {})
    sections = settings.get("partitions", {})
    for name in names(oracle, GROUP):
        method, _, between = name.partition("+")  # a pair, or a method and [bases.merge_out]
        inside = dict(sections.get(method, {}))
        outside = (
            {"method": between} | sections.get(between, {})
            if between
            else dict(settings.get("merge_out", {}))
        )
        yield from _follows(oracle, f"{GROUP}/{name}")
        if method != "joint" and not formulas.has(method, inside):
            continue
        basis = _bases(oracle, method, inside)
        if merges_bases(outside):
            yield from _models(oracle, name, basis, outside)
        if not between and names(oracle, f"{NEGATION}/{method}"):
            yield from _negation(oracle, f"{NEGATION}/{method}", basis)


Basis = Callable[[str, tuple[int, ...]], Parameters]


def _bases(oracle: Oracle, method: str, inside: Settings) -> Basis:
    """What the method makes of these tasks' vectors, or what training on them together made."""

    @cache
    def basis(regime: str, members: tuple[int, ...]) -> Parameters:
        if method != "joint" or len(members) == 1:
            return basis_of(oracle, regime, inside | {"method": method}, members)
        name = "+".join(oracle.tasks[t] for t in members)
        if len(members) == len(oracle.tasks):  # the regime's own model, unless its steps are others
            trained = oracle.inputs.run / "checkpoints" / JOINT[regime]
            name = "all" if (trained / "all").exists() else "joint"
        return {key: v - oracle.theta0[key] for key, v in oracle.joint(JOINT[regime], name).items()}

    return basis


def _cosine(first: Parameters, second: Parameters) -> float:
    a, b = flat(first), flat(second)
    return float(a @ b / (a.norm() * b.norm()))


def _negation(oracle: Oracle, group: str, basis: Basis) -> Iterator[Check]:
    """θ0 − αB of each cluster that holds the task."""

    def members(place: Place) -> tuple[int, ...]:
        node = oracle.results[f"{group}/{place[0]}"]
        return tuple(int(t) for t in node["member"][()][node["cluster"][place[1]].astype(bool)])

    def task(regime: str) -> int:
        return oracle.tasks.index(str(oracle.results[f"{group}/{regime}"].attrs["task"]))

    def cosine(place: Place) -> Reading:
        again = _cosine(oracle.tau(place[0], task(place[0])), basis(place[0], members(place)))
        return relative(stored(oracle, group, "cosine", place), again, floor=2e-5)

    def right(split: str, on_control: bool, place: Place) -> Array:
        regime, _, a = place
        node, of = oracle.results[f"{group}/{regime}"], members(place)
        where = len(oracle.tasks) if on_control else task(regime)
        index, alpha = f"{node.name}/{rows_of(split, on_control)}", -float(node["alpha"][a])
        return right_at(oracle, regime, basis(regime, of), alpha, of, index, where, split)

    yield Check(group, "cosine", places(oracle, group, "cosine"), cosine, SLOW)
    for split in SPLITS:
        yield from accuracies(oracle, group, f"{split}_target", partial(right, split, False), SLOW)
        yield from accuracies(oracle, group, f"{split}_control", partial(right, split, True), SLOW)
    yield from choice(oracle, group)
    yield from at_chosen_alpha(oracle, group)


def _models(oracle: Oracle, name: str, basis: Basis, outside: Settings) -> Iterator[Check]:
    group = f"{GROUP}/{name}"

    def member(regime: str, kept: Array) -> tuple[int, ...]:
        return tuple(int(t) for t in oracle.results[f"{group}/{regime}/member"][()][kept])

    def right(regime: str, tau: Parameters, alpha: float, of: tuple[int, ...], t: int, split: str) -> Array:
        return right_at(oracle, regime, tau, alpha, of, f"{group}/{regime}/{SPLITS[split]}", t, split)

    @cache
    def direction(regime: str, p: int) -> Parameters:
        labels = oracle.results[f"{group}/{regime}/labels"][p]
        clusters = [member(regime, labels == c) for c in range(labels.max() + 1)]
        return merged_bases(
            oracle, regime, outside, clusters, [basis(regime, members) for members in clusters]
        )

    def model(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, p, *alpha, i = place
            node = oracle.results[f"{group}/{regime}"]
            times = float(node["alpha"][alpha[0]] if alpha else node["coefficient"][p])
            every = member(regime, np.ones(len(node["member"]), dtype=bool))
            split = "validation" if alpha else "test"
            scores = right(regime, direction(regime, p), times, every, every[i], split)
            return share(stored(oracle, group, name, place), float(scores.mean()), len(scores))

        return measure

    def cosine(place: Place) -> Reading:
        regime, h, c = place
        node = oracle.results[f"{group}/{regime}"]
        again = _cosine(oracle.tau(regime, int(node["other"][h])), basis(regime, members_of(regime, c)))
        return relative(stored(oracle, group, "cosine", place), again, floor=2e-5)

    def members_of(regime: str, c: int) -> tuple[int, ...]:
        return member(regime, oracle.results[f"{group}/{regime}/cluster"][c].astype(bool))

    def held(split: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, h, c, a = place
            node, of = oracle.results[f"{group}/{regime}"], members_of(regime, c)
            alpha, t = float(node["held_alpha"][a]), int(node["other"][h])
            scores = right(regime, basis(regime, of), alpha, of, t, split)
            value = stored(oracle, group, "held_test" if split == "test" else "held_validation", place)
            return share(value, float(scores.mean()), len(scores))

        return measure

    def together(split: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, p, h, a = place
            node = oracle.results[f"{group}/{regime}"]
            every = member(regime, np.ones(len(node["member"]), dtype=bool))
            alpha, t = float(node["held_alpha"][a]), int(node["other"][h])
            scores = right(regime, direction(regime, p), alpha, every, t, split)
            return share(stored(oracle, group, f"together_{split}", place), float(scores.mean()), len(scores))

        return measure

    measures = {
        "together_test": together("test"),
        "together_validation": together("validation"),
        "accuracy": model("accuracy"),
        "validation_accuracy": model("validation_accuracy"),
        "cosine": cosine,
        "held_test": held("test"),
        "held_validation": held("validation"),
    }
    for name, measure in measures.items():
        yield from each_place(oracle, group, name, measure, SLOW)


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

    for name in CHOSEN:
        yield Check(group, name, places(oracle, group, name), chosen(name))

    def by_validation(node: h5py.Group, curve: str, place: tuple[int, int]) -> tuple[float, float, float]:
        """Test accuracy at α = 1 and at the α of the best validation accuracy, and this α."""
        alpha, test = node["held_alpha"][()], node[f"{curve}_test"][place]
        best = int(np.argmax(node[f"{curve}_validation"][place]))
        return test[int(np.flatnonzero(alpha == 1)[0])], test[best], alpha[best]

    def nearest(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, h, p = place
            node = oracle.results[f"{group}/{regime}"]
            labels, sets = node["labels"][p], node["cluster"][()].astype(bool)
            indices = [
                int(np.flatnonzero((sets == (labels == c)).all(1))[0]) for c in range(labels.max() + 1)
            ]
            c = indices[int(np.argmax(node["cosine"][h][indices]))]
            one_shot, tuned, alpha = by_validation(node, "held", (h, c))
            again = {
                "nearest": c,
                "found": node["cosine"][h, c] >= float(node.attrs["threshold"]),
                "one_shot": one_shot,
                "tuned": tuned,
                "chosen_alpha": alpha,
            }[name]
            return exact(node[name][h, p], float(again))

        return measure

    def together(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, p, h = place
            node = oracle.results[f"{group}/{regime}"]
            one_shot, tuned, alpha = by_validation(node, "together", (p, h))
            again = {"together_one_shot": one_shot, "together_tuned": tuned, "together_alpha": alpha}[name]
            return exact(node[name][p, h], float(again))

        return measure

    for name in ("together_one_shot", "together_tuned", "together_alpha"):
        yield from each_place(oracle, group, name, together(name))
    for name in ("nearest", "found", "one_shot", "tuned", "chosen_alpha"):
        yield from each_place(oracle, group, name, nearest(name))
