# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""All partitions: by similarity alone, and merged, of a few tasks (paper 2)."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import bases_negation, partitions
from taugrid_analysis.correlation import rank_correlation
from taugrid_analysis.run import Run
from taugrid_analysis.tables.bases import members
from taugrid_analysis.tables.cells import SAMPLE, largest_tried
from taugrid_analysis.text_table import Column, Table


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
            told = normalized[row][(labels[row] >= 0).all(axis=1)]
            if not len(held):  # tasks were left out: these are partitions of others than all
                continue
            own = partitions.modularity(cosine, held)
            same = whole[sizes == held[0].max() + 1]
            above, alike = (int((values > own[0] + 1e-12).sum()) for values in (whole, same))
            table.rows.append(
                [
                    regime,
                    f"{k} *" if k == chosen else f"{k}",
                    float(own[0]),
                    float(whole.max()),
                    f"{above + 1} of {len(whole)}",
                    f"{alike + 1} of {len(same)}",
                    rank_correlation(own, told) if len(np.unique(own)) > 2 else None,
                ]
            )
    if table.rows:
        table.notes.append(
            "Modularity of |cosine| (Newman): what is inside of clusters beyond what is expected of tasks"
            " that resemble others as much. Rank correlation: Spearman's, of modularity and normalized"
            " accuracy over the partitions into k clusters that were merged, random ones among them."
        )
    return table


def every_partition(run: Run) -> Table:
    """All partitions of a few tasks, a column a method (paper 2, table 10)."""
    results = run.results
    found = {
        name: data
        for name in results.by_method("every_partition")
        if (data := run.data("every_partition", name))
    }
    methods = list(dict.fromkeys(name.split("/")[0] for name in found))
    table = Table(
        "every_partition",
        "Every partition of a few tasks: normalized test accuracy, by what merges a cluster",
        [Column("regime"), Column("clusters"), *(Column(method, 1, percent=True) for method in methods)],
    )
    for regime in dict.fromkeys(name.split("/")[1] for name in found):
        own = {method: found[f"{method}/{regime}"] for method in methods if f"{method}/{regime}" in found}
        first = next(iter(own.values()))
        tasks = [results.tasks[int(task)] for task in first["member"].to_numpy()]
        for p, labels in enumerate(first["labels"].to_numpy().astype(int)):
            values = [float(own[method]["normalized"][p]) if method in own else None for method in methods]
            table.rows.append([regime, members(labels, tasks), *values])
        for what, name in (("one_shot", "α = 1"), ("tuned", "α tuned")):
            if any(what in data for data in own.values()):
                values = [
                    float(own[one][what].mean()) if what in own.get(one, {}) else None for one in methods
                ]
                table.rows.append([regime, f"a task outside, nearest basis, {name}", *values])
    if table.rows:
        outside = {str(data.attrs["merge_out"]) for name, data in found.items() if "+" not in name}
        pairs = " of A+B by B;" if any("+" in name for name in found) else ""
        table.notes.append(
            f"Bases merged by {', '.join(outside)},{pairs} α by validation. joint: one model trained on a"
            " cluster's tasks together, as long as each alone. A task outside: accuracy, mean over these"
            " tasks and all partitions."
        )
        table.notes += largest_tried({name.replace("/", " "): data for name, data in found.items()})
    return table


def negation(run: Run) -> Table:
    """One task without each basis of a cluster that holds it (paper 2, table 6), a row a method."""
    results = run.results
    table = Table(
        "partition_negation",
        "Negation by the bases of a few tasks' clusters: θ0 − α B, test accuracy",
        [
            Column("regime"),
            Column("basis by"),
            Column("cluster"),
            Column("cosine", 2),
            Column("alpha"),
            Column("target", 1, percent=True),
            Column("control", 1, percent=True),
        ],
    )
    told = set()
    for name in results.by_method("partition_negation"):
        method, _, regime = name.partition("/")
        data = results.data("partition_negation", name)
        assert data is not None
        told.add(
            (str(data.attrs["task"]), str(data.attrs["control"]), float(data.attrs["control_threshold"]))
        )
        tasks = [results.tasks[int(task)] for task in data["member"].to_numpy()]
        both = [bases_negation.at_chosen_alpha(results, name, what) for what in ("target", "control")]
        for place, (kept, target, control) in enumerate(
            zip(data["cluster"].to_numpy().astype(bool), *both, strict=True)
        ):
            cluster = " ".join(task for task, held in zip(tasks, kept, strict=True) if held)
            alpha = None if target is None else float(data["chosen_alpha"][place])
            table.rows.append([regime, method, cluster, float(data["cosine"][place]), alpha, target, control])
    for task, control_task, threshold in sorted(told):
        table.notes.append(
            f"target: {task}, which is to be forgotten; control: {control_task}. α: least target accuracy on"
            f" validation with at least {100 * threshold:g} % of θ0's control accuracy; none where no α keeps"
            " it. joint: one model trained on a cluster's tasks together. A cluster of one is τ itself."
        )
    if table.rows:
        table.notes.append(SAMPLE)
    return table
