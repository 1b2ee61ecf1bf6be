# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What element-wise merges see of two task vectors: conflicts of signs, and how far masks overlap."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import measures
from taugrid_analysis.correlation import rank_correlation
from taugrid_analysis.records import Floats
from taugrid_analysis.run import Run
from taugrid_analysis.text_table import Column, Table, Value


def chance_overlap(density: Floats) -> Floats:
    """Of masks that chance lays, from the shares that they keep: d/(2 − d) where both keep d."""
    both = np.outer(density, density)
    return np.asarray(both / (density[:, None] + density[None, :] - both))


def signs(run: Run) -> Table:
    """A line a regime, over its pairs of vectors."""
    results = run.results
    table = Table(
        "sign_conflict",
        f"Signs and masks of {len(results.tasks)} task vectors, over pairs",
        [
            Column("regime"),
            Column("density", 1, percent=True),
            Column("sign conflict", 1, percent=True),
            Column("least", 1, percent=True),
            Column("most", 1, percent=True),
            Column("most of"),
            Column("of all numbers", 1, percent=True),
            Column("mask overlap", 1, percent=True),
            Column("by chance", 1, percent=True),
            Column("largest", 1, percent=True),
            Column("largest of"),
            Column("corr. with cosine", 2),
        ],
    )
    for regime in results.names("similarity"):
        data = results.data("similarity", regime)
        assert data is not None
        if "sign_conflict" not in data or len(results.tasks) < 2:
            continue
        read = {name: _upper(data[name].to_numpy().astype(float)) for name in _MATRICES}
        conflict, overlap = read["sign_conflict"], read["mask_overlap"]
        chance = _upper(chance_overlap(data["mask_density"].to_numpy().astype(float)))
        row: list[Value] = [regime, float(data.attrs["density"]), float(np.nanmean(conflict))]
        row += [float(np.nanmin(conflict)), float(np.nanmax(conflict)), _pair(results.tasks, conflict)]
        row += [float(np.nanmean(read["sign_conflict_all"])), float(overlap.mean()), float(chance.mean())]
        row += [float(overlap.max()), _pair(results.tasks, overlap)]
        row.append(rank_correlation(-conflict, read["cosine"]) if len(conflict) > 2 else None)
        table.rows.append(row)
    if table.rows:
        table.notes.append(
            "Each vector keeps the numbers of largest magnitude that TIES keeps at this density. sign"
            " conflict: of the places that two vectors both keep, those where their signs differ; 50 % of"
            " independent signs. of all numbers: the same of all places where neither is zero. mask overlap:"
            " the places that both keep among those that either keeps. Correlation: Spearman's, over pairs,"
            " of the share that agrees with the cosine."
        )
    return table


_MATRICES = ("cosine", "sign_conflict", "sign_conflict_all", "mask_overlap")


def _upper(matrix: Floats) -> Floats:
    return np.asarray(matrix[np.triu_indices(len(matrix), 1)])


def _pair(tasks: list[str], values: Floats) -> str:
    """The pair of the largest."""
    i, j = (one[int(np.nanargmax(values))] for one in np.triu_indices(len(tasks), 1))
    return f"{tasks[i]} + {tasks[j]}"


def gaps(run: Run) -> Table:
    """Every gap of both Laplacians, and how far the partition into as many clusters is another's."""
    results = run.results
    partitions = [one for regime in results.regimes for one in _partitions(run, regime)]
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
            own, other = labels.get(k), by_place.get((first, mark), {}).get(k)
            end = ends[regime].get(k)
            table.rows.append(
                [
                    regime,
                    mark,
                    f"{k} *" if k == chosen else f"{k}",
                    float(plain[k] - plain[k - 1]),
                    float(normalised[k] - normalised[k - 1]),
                    _index(own, end) if mark != END else None,
                    _index(own, other) if regime != first else None,
                ]
            )
    at_chosen = {found[0]: (found[5], found[4].get(found[5])) for found in partitions if found[1] == END}
    regimes = list(at_chosen)
    told = []
    for place, one in enumerate(regimes):
        for another in regimes[place + 1 :]:
            (k, mine), (count, theirs) = at_chosen[one], at_chosen[another]
            index = _index(mine, theirs)
            if index is not None:
                told.append(f"{one} (k = {k}) and {another} ({count}) {index:.2f}")
    if table.rows:
        table.notes.append(
            "gap: λ_{k+1} − λ_k of D − W, W = |cosine|, whose largest with 1 < k < T chooses k (*);"
            " normalised: of I − D^−½ W D^−½. Rand index: adjusted for chance, of the partitions into k"
            f" clusters, with that at the end of training, and with {first}'s at the same point."
        )
        if told:
            table.notes.append(f"At the end, of the partitions at each one's own k: {'; '.join(told)}.")
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


def _index(one: Floats | None, other: Floats | None) -> float | None:
    """Of tasks that both have."""
    if one is None or other is None:
        return None
    held = (one >= 0) & (other >= 0)
    return measures.rand_index(one[held], other[held]) if held.any() else None
