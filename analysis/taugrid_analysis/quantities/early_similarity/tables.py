# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Similarity of task vectors on the way of training: clusters and gaps of the Laplacians."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers import means
from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.numbers.correlation import rank_correlation
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.quantities.bases.tables import members
from taugrid_analysis.run.opened import Run


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
            Column("gap at k", 4),
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
        last = means.off_diagonal(np.abs(cosine[-1]))
        for place, mark in enumerate(marks):
            steps = data["updates"].to_numpy()[place].astype(int)
            now = means.off_diagonal(np.abs(cosine[place]))
            k, values = int(data["chosen_clusters"][place]), data["eigenvalues"].to_numpy()[place]
            table.rows.append(
                [
                    regime,
                    mark,
                    f"{steps.min()}" if steps.min() == steps.max() else f"{steps.min()} to {steps.max()}",
                    float(data["norm"][place].mean()),
                    float(now.mean()) if len(now) else None,
                    float(values[k] - values[k - 1]) if k < len(values) else None,
                    rank_correlation(now, last) if len(now) > 2 else None,
                    f"{k}",
                    float(data["rand_index"][place]),
                    members(data["labels"].to_numpy()[place].astype(int), results.tasks),
                ]
            )
    if table.rows:
        table.notes.append(
            "k: by the largest gap of the Laplacian's eigenvalues; the table gaps has all of them. Rand"
            " index: of the clusters and those at the end, corrected for chance. Rank correlation:"
            " Spearman's, of |cosine| over pairs of tasks."
        )
    return table


def gaps(run: Run) -> Table:
    """Every gap of both Laplacians, and how far the partition into as many clusters is another's."""
    results = run.results
    partitions = [partition for regime in results.regimes for partition in _partitions(run, regime)]
    first = partitions[0][0] if partitions else ""
    table = Table(
        "gaps",
        f"Gaps of the Laplacians of {len(results.tasks)} task vectors by number of clusters",
        [
            Column("regime"),
            Column("after"),
            Column("k"),
            Column("gap", 4),
            Column("normalised gap", 4),
            Column("Rand index with the end", 2),
            Column(f"Rand index with {first}", 2),
        ],
    )
    ends = {regime: labels for regime, mark, _, _, labels, _ in partitions if mark == END}
    by_place = {(regime, mark): labels for regime, mark, _, _, labels, _ in partitions}
    for regime, mark, plain, normalised, labels, chosen in partitions:
        for k in range(1, len(plain)):
            clusters, other = labels.get(k), by_place.get((first, mark), {}).get(k)
            end = ends[regime].get(k)
            table.rows.append(
                [
                    regime,
                    mark,
                    f"{k} *" if k == chosen else f"{k}",
                    float(plain[k] - plain[k - 1]),
                    float(normalised[k] - normalised[k - 1]),
                    _index(clusters, end) if mark != END else None,
                    _index(clusters, other) if regime != first else None,
                ]
            )
    at_chosen = {
        partition[0]: (partition[5], partition[4].get(partition[5]))
        for partition in partitions
        if partition[1] == END
    }
    regimes = list(at_chosen)
    texts = []
    for place, earlier in enumerate(regimes):
        for another in regimes[place + 1 :]:
            (k, mine), (count, theirs) = at_chosen[earlier], at_chosen[another]
            index = _index(mine, theirs)
            if index is not None:
                texts.append(f"{earlier} (k = {k}) and {another} ({count}) {index:.2f}")
    if table.rows:
        table.notes.append(
            "gap: λ_{k+1} − λ_k of D − W, W = |cosine|, whose largest with 1 < k < T chooses k (*);"
            " normalised: of I − D^−½ W D^−½. Rand index: adjusted for chance, of the partitions into k"
            f" clusters, with that at the end of training, and with {first}'s at the same point."
        )
        if texts:
            table.notes.append(f"At the end, of the partitions at each one's own k: {'; '.join(texts)}.")
    return table


END = "end"
# regime, mark, eigenvalues of both Laplacians, labels by k, the chosen k
Partition = tuple[str, str, Floats, Floats, dict[int, Floats], int]


def _partitions(run: Run, regime: str) -> list[Partition]:
    """On the way of training where models were kept, else of /bases."""
    early, bases = (run.results.data(group, regime) for group in ("early_similarity", "bases"))
    if early is not None and "every_labels" in early:
        read = {name: early[name].to_numpy() for name in ("eigenvalues", "normalised_eigenvalues")}
        every, chosen = early["every_labels"].to_numpy(), early["chosen_clusters"].to_numpy()
        return [
            (
                *(regime, mark, read["eigenvalues"][m], read["normalised_eigenvalues"][m]),
                {k + 1: labels for k, labels in enumerate(every[m])},
                int(chosen[m]),
            )
            for m, mark in enumerate(str(early.attrs["marks"]).split(", "))
        ]
    if bases is None:
        return []
    held = np.isfinite(bases["eigenvalues"].to_numpy())
    labels = {
        int(k): row[0]
        for k, row in zip(bases["clusters"].to_numpy(), bases["labels"].to_numpy(), strict=True)
    }
    both = (bases[name].to_numpy()[held] for name in ("eigenvalues", "normalised_eigenvalues"))
    return [(regime, END, *both, labels, int(bases["chosen_clusters"]))]


def _index(labels: Floats | None, other: Floats | None) -> float | None:
    """The Rand index of the tasks that both have."""
    if labels is None or other is None:
        return None
    held = (labels >= 0) & (other >= 0)
    return means.rand_index(labels[held], other[held]) if held.any() else None


TABLES = {"early_similarity": early, "gaps": gaps}
