# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Task vector bases: the vectors in k clusters, a basis each, and θ0 + α times their merge (paper 2; shares).

Clusters are spectral, by |cosine| of the vectors, beside random ones of the same sizes; k is chosen by the
largest gap of the Laplacian's eigenvalues. /bases/R/accuracy [k, partition, task], absolute, normalized,
coefficient [k, partition].
"""

from __future__ import annotations

from taugrid_analysis.run.group import CHOSEN, ROWS, Group, Variable, alike

GROUPS = {
    "bases": Group(
        {
            "cosine": Variable(("task", "other")),
            "labels": Variable(("clusters", "partition", "task")),
            "accuracy": Variable(("clusters", "partition", "task")),
            "validation_accuracy": Variable(("clusters", "partition", "alpha", "task")),
            "chosen_clusters": Variable(()),
        }
        | alike(("eigenvalue",), "eigenvalues", "normalised_eigenvalues")
        | alike(("clusters", "partition"), *CHOSEN)
        | alike(("clusters", "partition"), "bytes", needed=False)
        | ROWS,
        axes={"alpha": ("alpha",), "clusters": ("clusters",)},
        words={"merge_in": "how a cluster's vectors became one", "merge_out": "how the bases became one"},
    )
}
