# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Task vectors beside each other: norms, cosines, natural groups of tasks, signs and masks."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers import means
from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.numbers.correlation import rank_correlation
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.quantities.similarity import clusters
from taugrid_analysis.run.opened import Run


def similarity(run: Run) -> Table:
    table = Table(
        "similarity",
        "Task vectors",
        [
            Column("regime"),
            Column("task"),
            Column("norm", 3),
            Column("norm / norm of θ0", 4),
            Column("largest |cosine|", 3),
            Column("with"),
            Column("sign conflict", 1, percent=True),
            Column("mask overlap", 1, percent=True),
        ],
    )
    for regime in run.results.names("similarity"):
        data = run.data("similarity", regime)
        assert data is not None
        others = np.abs(data["cosine"].to_numpy().astype(float))
        np.fill_diagonal(others, -1.0)
        for index, (task, row) in enumerate(run.tasks.loc[regime].iterrows()):
            nearest = int(others[index].argmax())
            cells: list[Value] = [regime, str(task), float(row["norm"]), float(row["norm_ratio"])]
            alone = nearest == index
            cells += [None, ""] if alone else [float(others[index, nearest]), run.results.tasks[nearest]]
            for matrix in ("sign_conflict", "mask_overlap"):
                known = matrix in data and not alone
                cells.append(float(data[matrix][index, nearest]) if known else None)
            table.rows.append(cells)
    return table


def groups(run: Run) -> Table:
    table = Table(
        "groups",
        "Natural groups of tasks: mean cosine of task vectors",
        [
            Column("regime"),
            Column("group"),
            Column("tasks"),
            Column("within", 3),
            Column("to other groups", 3),
        ],
    )
    named = np.array(run.results.groups)
    kinds = list(dict.fromkeys(run.results.groups))
    if len(kinds) < 2:
        return table
    for regime in run.results.names("similarity"):
        data = run.data("similarity", regime)
        assert data is not None
        cosine = data["cosine"].to_numpy().astype(float)
        same = named[:, None] == named[None, :]
        for kind in kinds:
            inside = named == kind
            table.rows.append(
                [
                    regime,
                    kind or "none",
                    int(inside.sum()),
                    means.mean(means.off_diagonal(cosine[np.ix_(inside, inside)])),
                    means.mean(cosine[np.ix_(inside, ~inside)]),
                ]
            )
        within = same & ~np.eye(len(named), dtype=bool)
        table.rows.append(
            [
                regime,
                "all",
                len(named),
                means.mean(cosine[within]),
                means.mean(cosine[~same]),
            ]
        )
        partition = clusters.clusters(cosine, len(kinds))
        agreement = means.rand_index(partition.labels, np.unique(named, return_inverse=True)[1])
        table.notes.append(
            f"{regime}: {len(kinds)} clusters by average linkage of 1 − |cosine| agree with the groups by an"
            f" adjusted Rand index of {agreement:.2f} (1: the same, 0: chance)."
        )
    table.notes.append(
        "Tasks of one group may share the words of their heads, which alone makes their vectors alike."
    )
    return table


def chance_overlap(density: Floats) -> Floats:
    """The overlap of masks that chance lays, from the shares they keep: d/(2 − d) where both keep d."""
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
        read = {name: means.off_diagonal(data[name].to_numpy()) for name in _MATRICES}
        conflict, overlap = read["sign_conflict"], read["mask_overlap"]
        chance = means.off_diagonal(chance_overlap(data["mask_density"].to_numpy().astype(float)))
        row: list[Value] = [regime, float(data.attrs.get("density", np.nan)), float(np.nanmean(conflict))]
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


def _pair(tasks: list[str], values: Floats) -> str:
    """The pair of the largest."""
    i, j = (indices[int(np.nanargmax(values))] for indices in np.triu_indices(len(tasks), 1))
    return f"{tasks[i]} + {tasks[j]}"


TABLES = {"similarity": similarity, "groups": groups, "sign_conflict": signs}
