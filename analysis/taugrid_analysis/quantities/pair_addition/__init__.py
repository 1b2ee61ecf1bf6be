# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Addition of two task vectors: the accuracy (a share) of θ0 + α (τ_i + τ_j) on both tasks, as of addition.

/pair_addition/R/test_accuracy and validation_accuracy [pair, alpha, side]; absolute, normalized, one_shot_…
[pair].
"""

from __future__ import annotations

from taugrid_analysis.run.group import ALPHA, PAIR, ROWS, SUMS, Group, alike

GROUPS = {
    "pair_addition": Group(
        alike(("pair", "alpha", "side"), "validation_accuracy", "test_accuracy") | alike(PAIR, *SUMS) | ROWS,
        ALPHA,
        correct=("test_accuracy",),
    )
}
