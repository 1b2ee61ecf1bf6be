# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The bound of a pair's loss gaps."""

from __future__ import annotations

import numpy as np
import xarray as xr

from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.means import of_pairs


def bounds(lambda_max: Array, similarity: xr.Dataset, pairs: Array) -> Floats:
    """L_i·C·(1+ε) [P,2] of both tasks of a pair (paper 2, theorem 4.4): what bounds each one's loss gap.

    L_i: |λ_max| of task i's training loss at its own model; C: the larger ‖τ‖² of the pair; ε:
    |cos(τ_i,τ_j)|.
    """
    size = (similarity["norm"].to_numpy()[pairs].astype(float) ** 2).max(axis=1)
    cosine = of_pairs(similarity["cosine"].to_numpy(), pairs)
    smooth = np.abs(lambda_max[pairs].astype(float))
    return np.asarray(smooth * (size * (1 + np.abs(cosine)))[:, None])
