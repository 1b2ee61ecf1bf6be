# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The divergences of the encoder's output again."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from taugrid_analysis.quantities.disentanglement.recompute import alone_and_merged, sum_of_sides
from taugrid_analysis.recompute.checks import Check, Place, Reading, relative, stored
from taugrid_analysis.recompute.common import each_place
from taugrid_analysis.recompute.oracle import Oracle


def checks(oracle: Oracle) -> Iterator[Check]:
    """Mean KL(p ‖ q) over points of softmaxed outputs, p alone and q merged; and half of both ways."""
    group = "representation"

    def divergence(alone: Tensor, merged: Tensor) -> float:
        log_p, log_q = log_softmax(alone, 1), log_softmax(merged, 1)
        return float(kl_div(log_q, log_p, log_target=True, reduction="batchmean"))

    def one_way(place: Place) -> Reading:
        _, alone, merged = alone_and_merged(oracle, group, place)
        value = stored(oracle, group, "error_by_task", place)
        return relative(value, divergence(alone, merged), 2e-3, 2e-6)

    def both_ways(place: Place) -> Reading:
        _, alone, merged = alone_and_merged(oracle, group, place)
        value = stored(oracle, group, "symmetric_error_by_task", place)
        return relative(value, (divergence(alone, merged) + divergence(merged, alone)) / 2, 2e-3, 2e-6)

    yield from each_place(oracle, group, "error_by_task", one_way)
    yield from each_place(oracle, group, "symmetric_error_by_task", both_ways)
    for name in ("error", "symmetric_error"):
        yield from each_place(
            oracle,
            group,
            name,
            lambda place, name=name: sum_of_sides(oracle, group, name, place),  # type: ignore[misc]
        )
