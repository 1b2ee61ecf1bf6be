# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Tasks that are answered by texts, decoded greedily: each task's own metric, exact match, F1, correlations.

/generation/R/value, exact_match, f1, token_accuracy (shares), pearson, spearman, no_number (a count) [task];
of sums of all vectors /generation_sum/R [alpha, task].
"""

from __future__ import annotations

from taugrid_analysis.run.group import ALPHA, TASK, Group, Variable, alike

MEASURES = ("value", "exact_match", "f1", "token_accuracy", "pearson", "spearman", "no_number")
GROUPS = {
    "generation": Group(
        alike(TASK, *MEASURES)
        | {"tokens": Variable(("task", "point", "token"), whole=False)}
        | {"sample_index": Variable(("task", "point"))}
    ),
    "generation_sum": Group(
        alike(("alpha", "task"), *MEASURES) | {"sample_index": Variable(("task", "point"))}, ALPHA
    ),
}
