# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Similarity of task vectors on the way of training, and the clusters that follow (paper 2, figure 9).

/early_similarity/R/cosine [mark, task, other], norm, updates, labels [mark, task], eigenvalues of the
Laplacian of |cosine| [mark, eigenvalue], rand_index [mark] of the clusters and those at the end.
"""

from __future__ import annotations

from taugrid_analysis.run.group import Group, Variable, alike

GROUPS = {
    "early_similarity": Group(
        {"cosine": Variable(("mark", "task", "other"))}
        | alike(("mark", "task"), "updates", "norm", "labels")
        | alike(("mark", "eigenvalue"), "eigenvalues", "normalised_eigenvalues")
        | {"every_labels": Variable(("mark", "clusters", "task"), needed=False)}
        | alike(("mark",), "chosen_clusters", "rand_index"),
        words={"marks": "the models on the way, by name"},
    )
}
