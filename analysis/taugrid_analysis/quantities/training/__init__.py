# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The training loss (nat) and the penalty at every update of fine-tuning, and the seconds that it took.

/training/R/loss and penalty [task, update], seconds [task]; of a model of all tasks without `task`.
"""

from __future__ import annotations

from taugrid_analysis.run.group import TASK, Group, Variable

JOINT = Group(  # one curve for all tasks
    {
        "loss": Variable(("update",)),
        "seconds": Variable(()),
        "penalty": Variable(("update",), needed=False),
    }
)
GROUPS = {
    "training": Group(
        {
            "loss": Variable(("task", "update")),
            "seconds": Variable(TASK),
            "penalty": Variable(("task", "update"), needed=False),
        },
        joint=JOINT,
    )
}
