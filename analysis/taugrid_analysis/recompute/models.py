# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Accuracies of models again: single tasks, joint models, sums and negations of task vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from h5py import Group
from torch import Tensor

from taugrid_analysis.recompute.checks import (
    FLOOR,
    Check,
    Place,
    Reading,
    bits,
    exact,
    names,
    pairs,
    places,
    relative,
    share,
    stored,
)
from taugrid_analysis.recompute.oracle import Oracle, Parameters
from taugrid_analysis.records import Array
from taugrid_analysis.regimes import JOINT, STARTS

Right = Callable[[Place], Array]  # which points the model at this place has right
SPLITS = {"test": "sample_index", "validation": "validation_sample_index"}


def prefix_of(split: str) -> str:
    """What names of this split's data sets begin with."""
    return "" if split == "test" else f"{split}_"


def checks(oracle: Oracle) -> Iterator[Check]:
    yield from _single(oracle)
    yield from _joint(oracle)
    yield from _addition(oracle)
    yield from _pair_addition(oracle)
    yield from _negation(oracle)


def accuracies(oracle: Oracle, group: str, variable: str, right: Right, most: int = 10**9) -> Iterator[Check]:
    """A variable of accuracies, and the bits beside it."""
    every = places(oracle, group, variable)

    def measure(place: Place) -> Reading:
        found = right(place)
        return share(stored(oracle, group, variable, place), found.mean(), len(found))

    def measure_bits(place: Place) -> Reading:
        found = right(place)
        differing = bits(oracle, f"{group}/{place[0]}/{variable}", place[1:], found)
        return share(0.0 if differing is None else differing, 0.0, len(found))

    if every:
        yield Check(group, variable, every, measure, most)
    known = [place for place in every if f"correct/{group}/{place[0]}/{variable}" in oracle.results]
    if known:
        yield Check("correct", f"{group}/{variable}", known, measure_bits, most)


def chosen_row(validation: Array, own: Array) -> int:
    """The coefficient with the largest mean normalised accuracy, of a curve [A, T] and accuracies [T].

    NaN: of tasks that are left out.
    """
    return int(np.argmax(np.nanmean(validation / own, axis=1)))


def chosen_means(
    alpha: Array, validation: Array, accuracy: Array, single: Group, tasks: Sequence[int] | Array
) -> dict[str, float]:
    """What validation points choose for an edited model of these n tasks, and its means.

    validation: [A, n], accuracy: [n], at the α chosen; single: what all tasks' own models have.
    """
    best = chosen_row(validation, single["validation_accuracy"][()][tasks])
    normalised = accuracy / single["accuracy"][()][tasks]
    return {"coefficient": alpha[best], "absolute": accuracy.mean(), "normalized": normalised.mean()}


def merged_tasks(oracle: Oracle, regime: str) -> list[int]:
    """Those that [data] beat_majority leaves; what others have of merges is NaN."""
    if not oracle.inputs.config["data"].get("beat_majority", False):
        return list(range(len(oracle.tasks)))
    return [int(t) for t in np.flatnonzero(oracle.results[f"single_task/{regime}/beats_majority"][()])]


def output_along(
    oracle: Oracle, regime: str, tau: Parameters, alpha: float, of: Sequence[int], x: Tensor, t: int
) -> Tensor:
    """The output of task t at θ0 + ατ, τ merged of these tasks' vectors, in the regime's function."""
    step = {k: alpha * v for k, v in tau.items()}
    edits = {} if alpha == 0 else dict.fromkeys(of, alpha / len(of))
    return oracle.through(regime, step, x, t, oracle.statistics(regime, edits, step))


def right_along(
    oracle: Oracle, regime: str, tau: Parameters, alpha: float, t: int, group: str, split: str
) -> Array:
    """Which points of the group's sample are right at θ0 + ατ, τ merged of the vectors of merged_tasks()."""
    x, y = oracle.points(f"{group}/{regime}/{SPLITS[split]}", t, split)
    output = output_along(oracle, regime, tau, alpha, merged_tasks(oracle, regime), x, t)
    return oracle.right(t, oracle.logits(t, output), y).numpy()


def _edits(regime: str, edits: dict[int, float]) -> dict[int, float]:
    return {} if regime in STARTS else edits


def _single(oracle: Oracle) -> Iterator[Check]:
    group = "single_task"

    def outcome(place: Place, split: str) -> tuple[Array, float]:
        regime, t = place
        index = f"{group}/{regime}/{SPLITS[split]}"
        right, loss = oracle.outcome(regime, _edits(regime, {t: 1.0}), t, index, split)
        return right.numpy(), loss

    yield from accuracies(oracle, group, "accuracy", lambda place: outcome(place, "test")[0])
    yield from accuracies(oracle, group, "validation_accuracy", lambda place: outcome(place, "validation")[0])
    yield Check(
        group,
        "loss",
        places(oracle, group, "loss"),
        lambda place: relative(stored(oracle, group, "loss", place), outcome(place, "test")[1], floor=FLOOR),
    )

    def beats(place: Place) -> Reading:
        """By the stored accuracy: a point on the border of two classes is not this check's."""
        regime, t = place
        if oracle.heads[t].kind == "text":  # which has no majority
            return exact(stored(oracle, group, "beats_majority", place), 1.0)
        _, y = oracle.points(f"{group}/{regime}/{SPLITS['validation']}", t, "validation")
        vote = float(y.bincount().max()) / len(y)
        accuracy = float(oracle.results[f"{group}/{regime}/validation_accuracy"][t])
        return exact(stored(oracle, group, "beats_majority", place), float(accuracy > vote))

    every = places(oracle, group, "beats_majority")
    if every:
        yield Check(group, "beats_majority", every, beats)
    for split, variable in (("test", "control_accuracy"), ("validation", "control_validation_accuracy")):
        every = places(oracle, group, variable)
        if every:
            yield Check(group, variable, every, _control(oracle, variable, split))


def _control(oracle: Oracle, variable: str, split: str) -> Callable[[Place], Reading]:
    """θ0 on the control task, whose rows follow from the run's seed."""

    def measure(place: Place) -> Reading:
        t = len(oracle.tasks)
        rows = oracle.control_rows(split)
        x, y = oracle.sample(split, t, rows)
        output = oracle.through(place[0], oracle.step(place[0], {}), x, t)
        right = oracle.right(t, oracle.logits(t, output), y)
        return share(stored(oracle, "single_task", variable, place), float(right.double().mean()), len(rows))

    return measure


def _joint(oracle: Oracle) -> Iterator[Check]:
    group = "multitask"

    def outcome(place: Place, split: str) -> tuple[Array, float]:
        regime, t = place
        right, loss = oracle.joint_outcome(regime, t, f"{group}/{regime}/{SPLITS[split]}", split)
        return right.numpy(), loss

    if not [name for name in names(oracle, group) if name in JOINT]:
        return
    yield from accuracies(oracle, group, "accuracy", lambda place: outcome(place, "test")[0])
    yield from accuracies(oracle, group, "validation_accuracy", lambda place: outcome(place, "validation")[0])
    yield Check(
        group,
        "loss",
        places(oracle, group, "loss"),
        lambda place: relative(stored(oracle, group, "loss", place), outcome(place, "test")[1], floor=FLOOR),
    )


def _addition(oracle: Oracle) -> Iterator[Check]:
    group = "addition"
    everything = range(len(oracle.tasks))

    def right(split: str) -> Right:
        def found(place: Place) -> Array:
            regime, a, t = place
            alpha = float(oracle.results[f"{group}/{regime}/alpha"][a])
            index = f"{group}/{regime}/{SPLITS[split]}"
            return oracle.outcome(regime, dict.fromkeys(everything, alpha), t, index, split)[0].numpy()

        return found

    for split in SPLITS:
        yield from accuracies(oracle, group, f"{split}_accuracy", right(split))

    def follows(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            node, single = oracle.results[f"{group}/{place[0]}"], oracle.results[f"single_task/{place[0]}"]
            best = chosen_row(node["validation_accuracy"][()], single["validation_accuracy"][()])
            if name == "chosen_alpha":
                return exact(node[name][()], node["alpha"][best])
            one = int(np.flatnonzero(node["alpha"][()] == 1.0)[0])
            row = node["test_accuracy"][one if name.startswith("one_shot") else best]
            again = (row / single["accuracy"][()]).mean() if name.endswith("normalized") else row.mean()
            return exact(node[name][()], again)

        return measure

    for name in ("chosen_alpha", "absolute", "normalized", "one_shot_absolute", "one_shot_normalized"):
        every = places(oracle, group, name)
        if every:
            yield Check(group, name, every, follows(name))


def _pair_addition(oracle: Oracle) -> Iterator[Check]:
    group, both = "pair_addition", pairs(oracle)

    def right(split: str) -> Right:
        def found(place: Place) -> Array:
            regime, p, a, side = place
            alpha = float(oracle.results[f"{group}/{regime}/alpha"][a])
            index, t = f"{group}/{regime}/{SPLITS[split]}", both[p][side]
            return oracle.outcome(regime, dict.fromkeys(both[p], alpha), t, index, split)[0].numpy()

        return found

    for split in SPLITS:
        yield from accuracies(oracle, group, f"{split}_accuracy", right(split))

    def follows(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, p = place
            node, single = oracle.results[f"{group}/{regime}"], oracle.results[f"single_task/{regime}"]
            tasks = list(both[p])
            best = chosen_row(node["validation_accuracy"][p], single["validation_accuracy"][()][tasks])
            if name == "chosen_alpha":
                return exact(node[name][p], node["alpha"][best])
            one = int(np.flatnonzero(node["alpha"][()] == 1.0)[0])
            row = node["test_accuracy"][p, one if name.startswith("one_shot") else best]
            divided = row / single["accuracy"][()][tasks]
            return exact(node[name][p], (divided if name.endswith("normalized") else row).mean())

        return measure

    for name in ("chosen_alpha", "absolute", "normalized", "one_shot_absolute", "one_shot_normalized"):
        every = places(oracle, group, name)
        if every:
            yield Check(group, name, every, follows(name))


def _negation(oracle: Oracle) -> Iterator[Check]:
    group, control = "negation", len(oracle.tasks)

    def right(split: str, on_control: bool) -> Right:
        def found(place: Place) -> Array:
            regime, t, a = place
            alpha = float(oracle.results[f"{group}/{regime}/alpha"][a])
            index = f"{group}/{regime}/{prefix_of(split)}{'control_' if on_control else ''}sample_index"
            where = control if on_control else t
            return oracle.outcome(regime, {t: -alpha}, where, index, split)[0].numpy()

        return found

    for split in SPLITS:
        yield from accuracies(oracle, group, f"{split}_target", right(split, False))
        yield from accuracies(oracle, group, f"{split}_control", right(split, True))

    for wide in ("", "wide/"):
        yield from at_chosen_alpha(oracle, group, "", wide)


def at_chosen_alpha(oracle: Oracle, group: str, curves: str, chosen: str) -> Iterator[Check]:
    """Target and control in the subgroup `chosen` are the test curves in `curves` at the α that it chose."""

    def follows(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, t = place
            node = oracle.results[f"{group}/{regime}"]
            alpha, value = node[f"{chosen}chosen_alpha"][t], node[f"{chosen}{name}"][t]
            if np.isnan(alpha):
                return exact(value, float("nan"))
            at = int(np.argmin(np.abs(node[f"{curves}alpha"][()] - alpha)))
            return exact(value, node[f"{curves}test_{name}"][t, at])

        return measure

    for name in ("target", "control"):
        every = places(oracle, group, f"{chosen}{name}")
        if every:
            yield Check(group, f"{chosen}{name}", every, follows(name))
