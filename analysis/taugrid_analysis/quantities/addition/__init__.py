# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Task addition: the accuracy (a share) of θ0 + α Σ τ over all tasks (paper 1, section 5).

absolute: the mean over tasks; normalized: the mean of each task's accuracy over that of its own model θ0 + τ.
α is the one of the largest mean normalised accuracy on validation points; one_shot_…: α = 1.
/addition/R/test_accuracy and validation_accuracy [alpha, task].
"""

from __future__ import annotations

from taugrid_analysis.run.group import ALPHA, ROWS, SUMS, Group, alike

GROUPS = {
    "addition": Group(
        alike(("alpha", "task"), "validation_accuracy", "test_accuracy") | alike((), *SUMS) | ROWS,
        ALPHA,
        correct=("test_accuracy",),
    )
}
