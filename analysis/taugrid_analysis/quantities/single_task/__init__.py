# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The accuracy (a share) and the loss (nat) of θ0 and of each task's own model θ0 + τ on its own task.

/single_task/R/accuracy and loss [task], on the test split; validation_accuracy; beats_majority: whether the
model beats the most frequent class on validation points; control_accuracy of θ0 on the control task.
"""

from __future__ import annotations

from taugrid_analysis.run.group import ROWS, TASK, Group, alike

OWN = (
    alike(TASK, "accuracy", "loss")
    | alike(TASK, "validation_accuracy", "beats_majority", needed=False)
    | ROWS
)
GROUPS = {
    "single_task": Group(
        OWN | alike((), "control_accuracy", "control_validation_accuracy", needed=False),
        correct=("accuracy",),
    )
}
