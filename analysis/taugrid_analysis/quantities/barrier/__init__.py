# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The loss barrier between two models (paper 5, theorem 5.1 and appendix C.2; nat).

δ = αL(θ1) + (1−α)L(θ2) − L(αθ1 + (1−α)θ2), which ½α(1−α) vᵀHv explains to second order, v = θ1 − θ2.
/barrier/R/delta [pair, alpha], loss [pair, side], distance ‖v‖, curvature vᵀHv at θ0 and middle_curvature
[pair].
"""

from __future__ import annotations

from taugrid_analysis.run.group import ALPHA, PAIR, ROWS, Group, Variable, alike

GROUPS = {
    "barrier": Group(
        {"delta": Variable(("pair", "alpha")), "loss": Variable(("pair", "side"))}
        | alike(PAIR, "curvature", "middle_curvature", "distance")
        | ROWS,
        ALPHA,
    )
}
