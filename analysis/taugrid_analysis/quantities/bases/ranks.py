# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What similarity alone says of the spectral partitions among all."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.correlation import rank_correlation
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.quantities.bases import partitions
from taugrid_analysis.run.opened import Run


def ranks(run: Run) -> Table:
    """What similarity alone says of the spectral partitions, among all that there are."""
    results = run.results
    count = len(results.tasks)
    every = (
        partitions.labelled(count) if 2 < count <= partitions.LABELLED else np.zeros((0, count), dtype=int)
    )
    table = Table(
        "partition_ranks",
        f"Spectral partitions among all {len(every):,} of {count} tasks, by similarity alone",
        [
            Column("regime"),
            Column("k"),
            Column("modularity", 3),
            Column("largest", 3),
            Column("place among all"),
            Column("of k clusters"),
            Column("rank corr. with accuracy", 2),
        ],
    )
    sizes = every.max(axis=1, initial=-1) + 1
    for regime in results.names("bases") if len(every) else []:
        data = results.data("bases", regime)
        assert data is not None
        cosine = data["cosine"].to_numpy().astype(float)
        whole, chosen = partitions.modularity(cosine, every), int(data["chosen_clusters"])
        labels, normalized = data["labels"].to_numpy(), data["normalized"].to_numpy().astype(float)
        for row, k in enumerate(data["clusters"].to_numpy().astype(int)):
            held = labels[row][(labels[row] >= 0).all(axis=1)].astype(int)
            scores = normalized[row][(labels[row] >= 0).all(axis=1)]
            if not len(held):  # tasks were left out: these are partitions of others than all
                continue
            modularity = partitions.modularity(cosine, held)
            same = whole[sizes == held[0].max() + 1]
            above, alike = (int((values > modularity[0] + 1e-12).sum()) for values in (whole, same))
            table.rows.append(
                [
                    regime,
                    f"{k} *" if k == chosen else f"{k}",
                    float(modularity[0]),
                    float(whole.max()),
                    f"{above + 1} of {len(whole)}",
                    f"{alike + 1} of {len(same)}",
                    rank_correlation(modularity, scores) if len(np.unique(modularity)) > 2 else None,
                ]
            )
    if table.rows:
        table.notes.append(
            "Modularity of |cosine| (Newman): what is inside of clusters beyond what is expected of tasks"
            " that resemble others as much. Rank correlation: Spearman's, of modularity and normalized"
            " accuracy over the partitions into k clusters that were merged, random ones among them."
        )
    return table
