# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The disentanglement error of the encoder's output (paper 4, equation 2; nat).

As ξ, with dist = KL(p ‖ q) of softmaxed outputs, p of the model with one vector and q of that with both;
symmetric_error: half of KL(p ‖ q) + KL(q ‖ p), as the authors' code has it. /representation/R/error [pair,
alpha_1, alpha_2] and error_by_task.
"""

from __future__ import annotations

from taugrid_analysis.quantities.disentanglement import AXES, ERRORS, GRID, TERMS
from taugrid_analysis.run.group import Group, Variable

PAPERS_SCALE = "no symmetric KL: the paper's scale cannot be compared with"
GROUPS = {
    "representation": Group(
        ERRORS
        | {
            "symmetric_error": Variable(GRID, needed=False, since=2, without=PAPERS_SCALE),
            "symmetric_error_by_task": Variable(
                TERMS, needed=False, since=2, without="no symmetric KL of either task"
            ),
        },
        AXES,
        least=2,
    )
}
