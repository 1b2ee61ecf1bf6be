# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The loss while heads are trained, before any fine-tuning (nat).

/heads/NAME/loss [task, step], /control_loss [step]; where the body was trained along, drawn_accuracy [task]
of θ0 read by the heads as they were drawn.
"""

from __future__ import annotations

from taugrid_analysis.run.group import Group, Variable

GROUPS = {
    "heads": Group(
        {
            "loss": Variable(("task", "head_step")),
            "control_loss": Variable(("head_step",), needed=False),
            "drawn_accuracy": Variable(("task",), needed=False),
        }
    )
}
