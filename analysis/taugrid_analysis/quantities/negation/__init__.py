# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Task negation: what θ0 − α τ leaves of the task and of a control task, as shares (paper 1, section 5.2).

α is chosen for each task: the least target accuracy on validation with at least control_threshold of θ0's
control accuracy; wide/: α searched in [0,3] instead of [0,1]. /negation/R/test_target, test_control,
validation_… [task, alpha].
"""

from __future__ import annotations

from taugrid_analysis.run.group import ALPHA, ROWS, TASK, Group, Variable, alike

CURVES = ("validation_target", "validation_control", "test_target", "test_control")
CONTROL_ROWS = ROWS | {
    "control_sample_index": Variable(("control_point",), needed=False),
    "validation_control_sample_index": Variable(("validation_control_point",), needed=False),
}
NEGATED = alike(("task", "alpha"), *CURVES) | alike(TASK, "chosen_alpha", "target", "control") | CONTROL_ROWS
WORDS = {"control": "the control task's name"}
NUMBERS = {"control_threshold": "the share of θ0's control accuracy to keep"}
WIDE = {
    f"wide_{name}": Variable(TASK, needed=False, path=f"wide/{name}")
    for name in ("chosen_alpha", "target", "control")
}
GROUPS = {
    "negation": Group(
        NEGATED | WIDE, ALPHA, words=WORDS, numbers=NUMBERS, correct=("test_target", "test_control")
    )
}
