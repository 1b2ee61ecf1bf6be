# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Task vectors stored with few singular vectors (TSV-C): accuracies (shares) of each task's own θ0 + τ'.

Each matrix keeps ⌊share · min(m, n)⌋ triples of 1 + m + n numbers. /compression/R/accuracy and kept,
‖τ'‖²/‖τ‖², [rank_share, task]; bits [rank_share] of a task, whole_bits those of τ.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.means import normalised
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.run.group import ROWS, Group, Variable, alike
from taugrid_analysis.run.opened import Run

if TYPE_CHECKING:
    from taugrid_analysis.recompute.checks import Check, Place, Reading
    from taugrid_analysis.recompute.oracle import Oracle, Parameters

GROUP = "compression"
GROUPS = {
    GROUP: Group(
        {
            "sample_index": ROWS["sample_index"],
            "bits": Variable(("rank_share",)),
            "whole_bits": Variable(()),
        }
        | alike(("rank_share", "task"), "accuracy", "kept"),
        {"rank_share": ("rank_share",)},
    )
}


def truncated(matrix: Array, share: float) -> Array:
    u, s, vh = np.linalg.svd(matrix, full_matrices=False)
    k = int(share * s.size)
    return np.asarray(u[:, :k] * s[:k] @ vh[:k])


def compression(run: Run) -> Table:
    table = Table(
        GROUP,
        "Task vectors with few singular vectors (TSV-C): each task's own model, means over tasks",
        [
            Column("regime"),
            Column("rank share", 3),
            Column("MB a task", 3),
            Column("of τ", 1, percent=True),
            Column("squared norm", 1, percent=True),
            Column("accuracy", 1, percent=True),
            Column("of whole τ", 1, percent=True),
            Column("normalized", 1, percent=True),
        ],
    )
    for regime in run.results.names(GROUP):
        data, single = run.data(GROUP, regime), run.data("single_task", regime)
        assert data is not None and single is not None
        whole, fine_tuned = float(data["whole_bits"]), single["accuracy"].to_numpy()
        for share, bits, kept, accuracy in zip(
            *(data[name].to_numpy() for name in ("rank_share", "bits", "kept", "accuracy")), strict=True
        ):
            means = [float(x.mean()) for x in (kept, accuracy, fine_tuned, normalised(accuracy, fine_tuned))]
            table.rows.append([regime, float(share), float(bits) / 8e6, float(bits) / whole, *means])
    return table


TABLES = {GROUP: compression}


def checks(oracle: Oracle) -> Iterator[Check]:
    import torch

    from taugrid_analysis.recompute.checks import names, relative, stored
    from taugrid_analysis.recompute.common import each_place
    from taugrid_analysis.recompute.models import SPLITS, accuracies, right_at

    if not names(oracle, GROUP):
        return

    def share_of(regime: str, s: int) -> float:
        return float(oracle.results[f"{GROUP}/{regime}/rank_share"][s])

    @lru_cache(2)
    def compressed(regime: str, s: int, t: int) -> Parameters:
        return {
            name: torch.tensor(truncated(x.double().numpy(), share_of(regime, s))).to(x.dtype)
            if x.dim() == 2
            else x
            for name, x in oracle.tau(regime, t).items()
        }

    def right(place: Place) -> Array:
        regime, s, t = place
        index = f"{GROUP}/{regime}/{SPLITS['test']}"
        return right_at(oracle, regime, compressed(regime, s, t), 1.0, [t], index, t, "test")

    def kept(place: Place) -> Reading:
        regime, s, t = place
        squares = [
            sum(float((x.double() ** 2).sum()) for x in tau.values())
            for tau in (compressed(regime, s, t), oracle.tau(regime, t))
        ]
        return relative(stored(oracle, GROUP, "kept", place), squares[0] / squares[1], 1e-4)

    def bits(place: Place) -> Reading:
        regime, s = place
        numbers = 0
        for x in oracle.theta0.values():
            k = int(share_of(regime, s) * min(x.shape)) if x.dim() == 2 else 0
            numbers += k * (1 + sum(x.shape)) if x.dim() == 2 else x.numel()
        return relative(stored(oracle, GROUP, "bits", place), 32 * numbers, 0.0)

    yield from accuracies(oracle, GROUP, "accuracy", right)
    yield from each_place(oracle, GROUP, "kept", kept)
    yield from each_place(oracle, GROUP, "bits", bits)
