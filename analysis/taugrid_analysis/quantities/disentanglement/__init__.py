# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The disentanglement error ξ of two task vectors (paper 1, section 3; no unit, from 0 to 2).

ξ(α1, α2) = Σ over both tasks t of E over x of task t [ dist(f(x; θ0 + α_t τ_t), f(x; θ0 + α1 τ1 + α2 τ2)) ],
with dist = 1 where the two predictions differ and 0 where they agree: 0 means that neither vector disturbs
the other's task. /disentanglement/R/error [pair, alpha_1, alpha_2], error_by_task [pair, side, alpha_1,
alpha_2]: its terms.
"""

from __future__ import annotations

from taugrid_analysis.run.group import ROWS, Group, Variable

GRID = ("pair", "alpha_1", "alpha_2")
TERMS = ("pair", "side", "alpha_1", "alpha_2")
AXES = {"alpha": ("alpha_1", "alpha_2")}
ERRORS = {"error": Variable(GRID), "error_by_task": Variable(TERMS)} | ROWS
GROUPS = {"disentanglement": Group(ERRORS, AXES, least=2)}
