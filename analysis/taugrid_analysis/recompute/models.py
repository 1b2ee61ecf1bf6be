# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Accuracies of models again: what every edited model's checks share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from h5py import Group
from torch import Tensor

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.means import normalised
from taugrid_analysis.recompute.checks import Check, Place, Reading, bits, places, share, stored, with_bits
from taugrid_analysis.recompute.oracle import Oracle, Parameters

Right = Callable[[Place], Array]  # which points the model at this place has right
SPLITS = {"test": "sample_index", "validation": "validation_sample_index"}


def prefix_of(split: str) -> str:
    """What names of this split's data sets begin with."""
    return "" if split == "test" else f"{split}_"


def accuracies(oracle: Oracle, group: str, variable: str, right: Right, most: int = 10**9) -> Iterator[Check]:
    """A variable of accuracies, and the bits beside it."""
    every = places(oracle, group, variable)

    def measure(place: Place) -> Reading:
        hits = right(place)
        return share(stored(oracle, group, variable, place), hits.mean(), len(hits))

    def measure_bits(place: Place) -> Reading:
        hits = right(place)
        differing = bits(oracle, f"{group}/{place[0]}/{variable}", place[1:], hits)
        return share(0.0 if differing is None else differing, 0.0, len(hits))

    if every:
        yield Check(group, variable, every, measure, most)
    if known := with_bits(oracle, group, variable, every):
        yield Check("correct", f"{group}/{variable}", known, measure_bits, most)


def chosen_row(validation: Array, single: Array) -> int:
    """The coefficient with the largest mean normalised accuracy, of a curve [A, T] and accuracies [T].

    NaN: of tasks that are left out.
    """
    return int(np.argmax(np.nanmean(normalised(validation, single), axis=1)))


def chosen_means(
    alpha: Array, validation: Array, accuracy: Array, single: Group, tasks: Sequence[int] | Array
) -> dict[str, float]:
    """What validation points choose for an edited model of these n tasks, and its means.

    validation: [A, n], accuracy: [n], at the α chosen; single: what all tasks' own models have.
    """
    best = chosen_row(validation, single["validation_accuracy"][()][tasks])
    shares = normalised(accuracy, single["accuracy"][()][tasks])
    return {"coefficient": alpha[best], "absolute": accuracy.mean(), "normalized": shares.mean()}


def merged_tasks(oracle: Oracle, regime: str) -> list[int]:
    """The tasks that [data] beat_majority leaves; what others have of merges is NaN."""
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


def rows_of(split: str, on_control: bool) -> str:
    """The data set of a group that has the rows of its points."""
    return f"{prefix_of(split)}{'control_' if on_control else ''}sample_index"


def right_at(
    oracle: Oracle,
    regime: str,
    tau: Parameters,
    alpha: float,
    of: Sequence[int],
    index: str,
    t: int,
    split: str,
) -> Array:
    """Which points of the sample `index` of task t are right at θ0 + ατ, τ merged of these tasks' vectors."""
    x, y = oracle.points(index, t, split)
    return oracle.right(t, oracle.logits(t, output_along(oracle, regime, tau, alpha, of, x, t)), y).numpy()


def right_along(
    oracle: Oracle, regime: str, tau: Parameters, alpha: float, t: int, group: str, split: str
) -> Array:
    """Which points of the group's sample are right at θ0 + ατ, τ merged of the vectors of merged_tasks()."""
    index = f"{group}/{regime}/{SPLITS[split]}"
    return right_at(oracle, regime, tau, alpha, merged_tasks(oracle, regime), index, t, split)
