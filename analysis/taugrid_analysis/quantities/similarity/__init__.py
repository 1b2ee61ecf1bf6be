# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Task vectors beside each other: cos(τ_i, τ_j) = ⟨τ_i, τ_j⟩/(‖τ_i‖ ‖τ_j‖), ‖τ‖ and ‖τ‖/‖θ0‖.

/similarity/R/cosine [task, other], norm and norm_ratio [task]; sign_conflict and mask_overlap [task, other]:
of the numbers of largest magnitude that TIES keeps at `density`, the share of the places that both keep where
signs differ, and of the places that either keeps those that both keep. loss_gap [pair, side]: L_i(θ0 + ½(τ_i
+ τ_j)) − L_i(θ0 + τ_i) in nat; sum_loss_gap: the same of the sum of all vectors; cross_loss [task, other, α]:
the loss of θ0 + ατ_i on task j.
"""

from __future__ import annotations

from taugrid_analysis.run.group import ROWS, TASK, Group, Variable, alike

GROUPS = {
    "similarity": Group(
        {"cosine": Variable(("task", "other")), "loss_gap": Variable(("pair", "side"), needed=False)}
        | alike(TASK, "norm", "norm_ratio")
        | alike(("task", "other"), "sign_conflict", "sign_conflict_all", "mask_overlap", needed=False)
        | alike(TASK, "mask_density", needed=False)
        | {
            "sum_alpha": Variable(("sum_alpha",), needed=False),
            "sum_loss_gap": Variable(("task", "sum_alpha"), needed=False),
            "cross_alpha": Variable(("cross_alpha",), needed=False),
            "cross_loss": Variable(("task", "other", "cross_alpha"), needed=False),
        }
        | ROWS
    )
}
