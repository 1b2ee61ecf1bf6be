# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""ξ again: the share of points on which the model with both task vectors decides otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from taugrid_analysis.recompute.checks import Check, Place, Reading, exact, pairs, share, stored
from taugrid_analysis.recompute.common import each_place, split_of
from taugrid_analysis.recompute.oracle import Oracle


def alone_and_merged(oracle: Oracle, group: str, place: Place) -> tuple[int, Tensor, Tensor]:
    """The task, and the encoder's outputs alone and merged, on its points at (α1, α2)."""
    regime, p, side, i, j = place
    alpha = oracle.results[f"{group}/{regime}/alpha"][()]
    pair, coefficients = pairs(oracle)[p], (float(alpha[i]), float(alpha[j]))
    t, index = pair[side], f"{group}/{regime}/sample_index"
    alone = oracle.output(regime, ((t, coefficients[side]),), t, index, split_of(oracle, group, regime))
    merged = oracle.output(
        regime, tuple(zip(pair, coefficients, strict=True)), t, index, split_of(oracle, group, regime)
    )
    return t, alone, merged


def checks(oracle: Oracle) -> Iterator[Check]:
    group = "disentanglement"

    def measure(place: Place) -> Reading:
        t, alone, merged = alone_and_merged(oracle, group, place)
        _, y = oracle.points(f"{group}/{place[0]}/sample_index", t, split_of(oracle, group, str(place[0])))
        first, second = (oracle.predicted(t, oracle.logits(t, z), y) for z in (alone, merged))
        differs = first != second
        value = stored(oracle, group, "error_by_task", place)
        return share(value, float(differs.double().mean()), len(differs))

    yield from each_place(oracle, group, "error_by_task", measure)
    yield from each_place(oracle, group, "error", lambda place: sum_of_sides(oracle, group, "error", place))


def sum_of_sides(oracle: Oracle, group: str, name: str, place: Place) -> Reading:
    regime, p, i, j = place
    terms = oracle.results[f"{group}/{regime}/{name}_by_task"][p, :, i, j]
    return exact(stored(oracle, group, name, place), terms.sum())
