# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the Gram matrix of task vectors tells: clusters on the way of training, bases without clusters."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import measures
from taugrid_analysis.correlation import rank_correlation
from taugrid_analysis.run import Run
from taugrid_analysis.tables.bases import members
from taugrid_analysis.text_table import Column, Table

SUMS = ("bases", "recovered")


def early(run: Run) -> Table:
    """Similarity of the vectors on the way (figure 9)."""
    results = run.results
    table = Table(
        "early_similarity",
        f"Similarity of {len(results.tasks)} task vectors on the way of their training",
        [
            Column("regime"),
            Column("after"),
            Column("steps"),
            Column("mean norm", 3),
            Column("mean |cosine|", 3),
            Column("rank corr. with the end", 2),
            Column("k"),
            Column("Rand index", 2),
            Column("clusters"),
        ],
    )
    for regime in results.names("early_similarity"):
        data = results.data("early_similarity", regime)
        assert data is not None
        marks = str(data.attrs["marks"]).split(", ")
        cosine = data["cosine"].to_numpy().astype(float)
        last = measures.off_diagonal(np.abs(cosine[-1]))
        for place, mark in enumerate(marks):
            steps = data["updates"].to_numpy()[place].astype(int)
            now = measures.off_diagonal(np.abs(cosine[place]))
            table.rows.append(
                [
                    regime,
                    mark,
                    f"{steps.min()}" if steps.min() == steps.max() else f"{steps.min()} to {steps.max()}",
                    float(data["norm"][place].mean()),
                    float(now.mean()) if len(now) else None,
                    rank_correlation(now, last) if len(now) > 2 else None,
                    f"{int(data['chosen_clusters'][place])}",
                    float(data["rand_index"][place]),
                    members(data["labels"].to_numpy()[place].astype(int), results.tasks),
                ]
            )
    if table.rows:
        table.notes.append(
            "k: by the largest gap of the Laplacian's eigenvalues. Rand index: of the clusters and those at"
            " the end, corrected for chance. Rank correlation: Spearman's, of |cosine| over pairs of tasks."
        )
    return table


def low_rank(run: Run) -> Table:
    """Bases by an autoencoder and by principal components."""
    results = run.results
    table = Table(
        "low_rank",
        f"Bases without clusters of {len(results.tasks)} task vectors, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("method"),
            Column("bases"),
            Column("lost", 1, percent=True),
            *(
                column
                for name in SUMS
                for column in (Column(f"{name}, alpha"), Column(name, 1, percent=True))
            ),
        ],
    )
    for regime in results.names("low_rank"):
        data = results.data("low_rank", regime)
        assert data is not None
        for q, method in enumerate(str(data.attrs["methods"]).split(", ")):
            for row, bases in enumerate(data["bases"].to_numpy().astype(int)):
                values = [
                    float(data[name][q, row, place])
                    for place in range(len(SUMS))
                    for name in ("coefficient", "normalized")
                ]
                table.rows.append([regime, method, f"{bases}", float(data["error"][q, row]), *values])
    if table.rows:
        table.notes.append(
            "lost: ‖V − V̂‖² / ‖V‖² of the vectors that are made of the bases again. bases: normalized"
            " accuracy of θ0 + α times their sum, α by validation; recovered: of the sum of the vectors made"
            " again, which of principal components is that of the vectors themselves."
        )
    return table
