# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Vectors of two pre-trained models, added to either (paper 2, table 2; accuracies, shares).

/mixed_starts/R/accuracy [start, vectors, task], the vectors its own, half of each, the other's, and across
(θ′ − θ0); cosine [vector, other_vector] of all vectors of both; distance of the two θ0.
"""

from __future__ import annotations

from taugrid_analysis.run.group import ALPHA, CHOSEN, ROWS, Group, Variable, alike

GROUPS = {
    "mixed_starts": Group(
        {"cosine": Variable(("vector", "other_vector")), "distance": Variable(())}
        | alike(("vector",), "norm", "across_norm")
        | {"start_norm": Variable(("start",))}
        | alike(("start", "task"), "start_accuracy", "own_accuracy")
        | {"validation_accuracy": Variable(("start", "vectors", "alpha", "task"))}
        | {"accuracy": Variable(("start", "vectors", "task"))}
        | alike(("start", "vectors"), *CHOSEN)
        | ROWS,
        ALPHA,
        words={"other": "the second pre-trained model"},
    )
}
