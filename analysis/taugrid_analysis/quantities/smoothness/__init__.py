# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The curvature of the loss at fine-tuned models, and the bounds that follow (paper 2, section 4.2).

lambda_max: the eigenvalue of largest magnitude of the Hessian of the training loss at θ0 + τ (nat a squared
unit of θ), with its sign: it is negative where negative curvature is the stronger one. A single number is
shown so; means, comparisons and bounds take |λ_max|, which magnitude() gives.
residual: ‖Hv − λv‖/|λ|. The bound on a pair's loss gap is L C (1 + ε): L = |λ_max|, C the
larger ‖τ‖², ε = |cos(τ_i, τ_j)|. /smoothness/R/lambda_max, residual, hvp_count [task].
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.run.group import ROWS, TASK, Group, alike

GROUPS = {"smoothness": Group(alike(TASK, "lambda_max", "residual", "hvp_count") | ROWS)}


def magnitude(curvature: xr.Dataset) -> Floats:
    """|λ_max| [T] of one model's group: how strong the curvature is, whichever its sign."""
    return np.abs(curvature["lambda_max"].to_numpy().astype(float))
