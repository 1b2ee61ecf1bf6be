# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""All partitions of a few tasks, merged, and one task forgotten by each of their bases (paper 2)."""

from __future__ import annotations

import numpy as np
import xarray as xr

from taugrid_analysis.numbers import sampling
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.measured import Measured, measured_mean
from taugrid_analysis.page.cells import SAMPLE, largest_tried
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.quantities.bases.tables import members
from taugrid_analysis.quantities.every_partition import forgetting
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.opened import Run

OUTSIDE = {
    "one_shot": "nearest basis, α = 1",
    "tuned": "nearest basis, α tuned",
    "together_one_shot": "all bases at once, α = 1",
    "together_tuned": "all bases at once, α tuned",
}


def every_partition(run: Run) -> Table:
    """All partitions of a few tasks, a column a method (paper 2, table 10)."""
    results = run.results
    datasets = {
        name: data
        for name in results.by_method("every_partition")
        if (data := run.data("every_partition", name))
    }
    methods = list(dict.fromkeys(name.split("/")[0] for name in datasets))
    table = Table(
        "every_partition",
        "Every partition of a few tasks: normalized test accuracy, by what merges a cluster",
        [Column("regime"), Column("clusters"), *(Column(method, 1, percent=True) for method in methods)],
    )
    for regime in dict.fromkeys(name.split("/")[1] for name in datasets):
        by_method = {
            method: datasets[f"{method}/{regime}"] for method in methods if f"{method}/{regime}" in datasets
        }
        first = next(iter(by_method.values()))
        tasks = [results.tasks[int(task)] for task in first["member"].to_numpy()]
        for p, labels in enumerate(first["labels"].to_numpy().astype(int)):
            values = [
                _normalized(run, regime, by_method[method], p) if method in by_method else None
                for method in methods
            ]
            table.rows.append([regime, members(labels, tasks), *values])
        for what, name in OUTSIDE.items():
            if any(what in data for data in by_method.values()):
                values = [
                    _outside(by_method[method], what) if what in by_method.get(method, {}) else None
                    for method in methods
                ]
                table.rows.append([regime, f"a task outside, {name}", *values])
    if table.rows:
        outside = {str(data.attrs["merge_out"]) for name, data in datasets.items() if "+" not in name}
        pairs = " of A+B by B;" if any("+" in name for name in datasets) else ""
        table.notes.append(
            f"Bases merged by {', '.join(outside)},{pairs} α by validation. joint: one model trained on a"
            " cluster's tasks together, as long as each alone. All bases at once: merged as above (appendix"
            " C.4 of the paper). A task outside: accuracy, mean over these"
            " tasks and all partitions, which are of the same points and count as fully correlated. Merged"
            " and single models are taken as independent: errors of ratios are rather too large."
        )
        table.notes.append(SAMPLE)
        table.notes += largest_tried({name.replace("/", " "): data for name, data in datasets.items()})
    return table


def _points(data: xr.Dataset, tasks: Array) -> Array:
    """How many test points each of these tasks had; 0 where the rows are not stored."""
    if "sample_index" not in data:
        return np.zeros(len(tasks), dtype=int)
    return np.asarray((data["sample_index"].to_numpy()[tasks] >= 0).sum(axis=1))


def _normalized(run: Run, regime: str, data: xr.Dataset, p: int) -> Measured:
    """The mean over the tasks of accuracy over the single model's, and its error."""
    member = data["member"].to_numpy().astype(int)
    accuracy = data["accuracy"].to_numpy()[p].astype(float)
    errors = sampling.binomial(accuracy, _points(data, member))
    single = accuracies.accuracies(run.results, "single_task", regime, "accuracy")
    if single is None:
        return Measured(float(data["normalized"][p]), float("nan"))
    alone = single.value.to_numpy().astype(float)
    ratios = [
        sampling.of_ratio(above, alone[task], error, single.error[task])
        for above, error, task in zip(accuracy, errors, member, strict=True)
    ]
    return Measured(float(data["normalized"][p]), float(sampling.of_mean(np.array(ratios))))


def _outside(data: xr.Dataset, what: str) -> Measured:
    """The mean over tasks outside and partitions: these share a task's points, tasks have different ones."""
    values = data[what].transpose("held_out", "partition").to_numpy().astype(float)
    points = _points(data, data["other"].to_numpy().astype(int))
    errors = sampling.binomial(values, np.broadcast_to(points[:, None], values.shape)).mean(axis=1)
    return measured_mean(values.mean(axis=1), errors)


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
    criteria = set()
    for name in results.by_method("partition_negation"):
        method, _, regime = name.partition("/")
        data = results.data("partition_negation", name)
        assert data is not None
        criteria.add(
            (str(data.attrs["task"]), str(data.attrs["control"]), float(data.attrs["control_threshold"]))
        )
        tasks = [results.tasks[int(task)] for task in data["member"].to_numpy()]
        both = [forgetting.at_chosen_alpha(results, name, what) for what in ("target", "control")]
        for place, (kept, target, control) in enumerate(
            zip(data["cluster"].to_numpy().astype(bool), *both, strict=True)
        ):
            cluster = " ".join(task for task, held in zip(tasks, kept, strict=True) if held)
            alpha = None if target is None else float(data["chosen_alpha"][place])
            table.rows.append([regime, method, cluster, float(data["cosine"][place]), alpha, target, control])
    for task, control_task, threshold in sorted(criteria):
        table.notes.append(
            f"target: {task}, which is to be forgotten; control: {control_task}. α: least target accuracy on"
            f" validation with at least {100 * threshold:g} % of θ0's control accuracy; none where no α keeps"
            " it. joint: one model trained on a cluster's tasks together. A cluster of one is τ itself."
        )
    if table.rows:
        table.notes.append(SAMPLE)
    return table


TABLES = {"every_partition": every_partition, "partition_negation": negation}
