# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frames tell of task vectors."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.means import mean
from taugrid_analysis.numbers.means import of_pairs as at_pairs
from taugrid_analysis.run.results import Results

MATRICES = ("cosine", "sign_conflict", "mask_overlap")


def of_tasks(results: Results, regime: str) -> dict[str, Array]:
    return results.columns("similarity", regime, {"norm": "norm", "norm_ratio": "norm_ratio"})


def of_pairs(results: Results, regime: str) -> dict[str, Array]:
    """Loss gaps are the regime's own; cosines, signs and masks also those of the same vectors in its twin."""
    nothing, pairs = results.nothing(), results.pairs
    vectors, data = results.twin("similarity", regime), results.data("similarity", regime)
    columns = {
        matrix: at_pairs(vectors[matrix].to_numpy(), pairs)
        if vectors is not None and matrix in vectors
        else nothing
        for matrix in MATRICES
    }
    for side in (0, 1):
        known = data is not None and "loss_gap" in data
        columns[f"loss_gap_{side + 1}"] = (
            data["loss_gap"].to_numpy()[:, side] if data is not None and known else nothing
        )
    columns["loss_gap"] = (columns["loss_gap_1"] + columns["loss_gap_2"]) / 2
    return columns


def of_regime(results: Results, regime: str) -> dict[str, float]:
    vectors = results.twin("similarity", regime)
    if vectors is None:
        return {"norm": np.nan, "cosine": np.nan}
    cosine = at_pairs(vectors["cosine"].to_numpy(), results.pairs)
    return {"norm": mean(vectors["norm"].to_numpy()), "cosine": mean(np.abs(cosine))}
