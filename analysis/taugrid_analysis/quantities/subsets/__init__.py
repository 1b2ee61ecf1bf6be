# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Sums of random subsets of the tasks: accuracies (shares) of θ0 + α τ, τ merged of a subset's vectors.

/subsets/R/accuracy [set, task], NaN outside of the set; absolute, normalized, coefficient [set].
"""

from __future__ import annotations

from taugrid_analysis.run.group import ALPHA, CHOSEN, ROWS, Group, Variable, alike

GROUPS = {
    "subsets": Group(
        {"validation_accuracy": Variable(("task_set", "alpha", "task"))}
        | alike(("task_set", "task"), "sets", "accuracy")
        | alike(("task_set",), *CHOSEN)
        | ROWS,
        ALPHA,
        words={"merge": "how a subset's vectors became one"},
    )
}
