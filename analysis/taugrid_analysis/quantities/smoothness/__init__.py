# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The curvature of the loss at fine-tuned models, and the bounds that follow (paper 2, section 4.2).

lambda_max: the largest eigenvalue in absolute value of the Hessian of the training loss at θ0 + τ (nat a
squared unit of θ); residual: ‖Hv − λv‖/|λ|. The bound on a pair's loss gap is L C (1 + ε): L = |λ_max|, C the
larger ‖τ‖², ε = |cos(τ_i, τ_j)|. /smoothness/R/lambda_max, residual, hvp_count [task].
"""

from __future__ import annotations

from taugrid_analysis.run.group import ROWS, TASK, Group, alike

GROUPS = {"smoothness": Group(alike(TASK, "lambda_max", "residual", "hvp_count") | ROWS)}
