# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Bases without clusters: an autoencoder's, and principal components of the task vectors (paper 2).

error: ‖V − V̂‖²/‖V‖² of the vectors that are made of the bases again. /low_rank/R/error [method, bases],
accuracy [method, bases, sum, task], shares; /low_rank_negation/METHOD/R: negation by the vectors made again.
"""

from __future__ import annotations

from taugrid_analysis.quantities.negation import NEGATED, NUMBERS, WORDS
from taugrid_analysis.run.group import ALPHA, CHOSEN, ROWS, TASK, Group, Variable, alike

GROUPS = {
    "low_rank": Group(
        alike(("method", "bases"), "error")
        | {"encoder": Variable(("method", "bases", "task", "basis"))}
        | {"decoder": Variable(("method", "bases", "basis", "task"))}
        | {"validation_accuracy": Variable(("method", "bases", "sum", "alpha", "task"))}
        | {"accuracy": Variable(("method", "bases", "sum", "task"))}
        | alike(("method", "bases", "sum"), *CHOSEN)
        | ROWS,
        axes={"alpha": ("alpha",), "bases": ("bases",)},
        words={"methods": "how bases were made"},
    ),
    "low_rank_negation": Group(
        NEGATED | alike(TASK, "cosine"), ALPHA, words=WORDS, numbers=NUMBERS, by_method=True
    ),
}
