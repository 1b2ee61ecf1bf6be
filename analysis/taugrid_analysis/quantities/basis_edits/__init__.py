# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Single bases subtracted, or used on a task that was held out (paper 2, tables 6 and 7; accuracies, shares).

/basis_negation/R: θ0 − α B with the basis nearest to each task, as negation; /basis_transfer/R: θ0 + α B of
each task with the bases of the others' vectors.
"""

from __future__ import annotations

from taugrid_analysis.quantities.negation import NEGATED, NUMBERS, WORDS
from taugrid_analysis.run.group import ALPHA, ROWS, TASK, Group, Variable, alike

IN = {"merge_in": "how a cluster's vectors became one"}
GROUPS = {
    "basis_negation": Group(
        NEGATED | alike(TASK, "labels", "nearest", "nearest_cosine"), ALPHA, words=WORDS | IN, numbers=NUMBERS
    ),
    "basis_transfer": Group(
        {"labels": Variable(("task", "other")), "cosine": Variable(("task", "basis"))}
        | alike(("task", "basis", "alpha"), "validation_accuracy", "test_accuracy")
        | alike(TASK, "nearest", "found", "chosen_alpha", "accuracy", "others", "one_shot", "pretrained")
        | ROWS,
        ALPHA,
        words=IN,
        numbers={"threshold": "the cosine from which on a basis is found"},
    ),
}
