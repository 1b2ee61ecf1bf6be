# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frames tell of the loss's curvature, and of the bounds that follow from it."""

from __future__ import annotations

import numpy as np
import xarray as xr

from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.means import mean
from taugrid_analysis.numbers.means import of_pairs as at_pairs
from taugrid_analysis.quantities.smoothness import magnitude
from taugrid_analysis.run.results import Results


def bounds(curvature: xr.Dataset, similarity: xr.Dataset, pairs: Array) -> Floats:
    """L_i·C·(1+ε) [P,2] of both tasks of a pair (paper 2, theorem 4.4): what bounds each one's loss gap.

    L_i: |λ_max| of task i's training loss at its own model; C: the larger ‖τ‖² of the pair; ε:
    |cos(τ_i,τ_j)|.
    """
    size = (similarity["norm"].to_numpy()[pairs].astype(float) ** 2).max(axis=1)
    cosine = at_pairs(similarity["cosine"].to_numpy(), pairs)
    return np.asarray(magnitude(curvature)[pairs] * (size * (1 + np.abs(cosine)))[:, None])


def of_tasks(results: Results, regime: str) -> dict[str, Array]:
    variables = {"lambda_max": "lambda_max", "lambda_residual": "residual", "products": "hvp_count"}
    return results.columns("smoothness", regime, variables)


def of_pairs(results: Results, regime: str) -> dict[str, Array]:
    vectors, curvature = results.twin("similarity", regime), results.data("smoothness", regime)
    if vectors is None or curvature is None:
        return dict.fromkeys(("bound_1", "bound_2"), results.nothing())
    both = bounds(curvature, vectors, results.pairs)
    return {"bound_1": both[:, 0], "bound_2": both[:, 1]}


def of_regime(results: Results, regime: str) -> dict[str, float]:
    curvature = results.data("smoothness", regime)
    return {"lambda_max": mean(magnitude(curvature)) if curvature is not None else np.nan}
