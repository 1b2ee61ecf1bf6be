# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Partitions of tasks into clusters (paper 2): those that a run measured, and their mean bases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from taugrid_analysis.numbers import means, sampling
from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.measured import Measured, measured_mean
from taugrid_analysis.quantities.addition.sums import added
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.opened import Run
from taugrid_analysis.run.results import Results

Partition = frozenset[frozenset[str]]  # clusters of tasks' names
FOUR = {"M": "mnist", "S": "svhn", "E": "eurosat", "R": "resisc45"}  # of which the paper takes all partitions


def of_labels(labels: Array, tasks: Sequence[str]) -> Partition:
    """Tasks of label −1 were left out."""
    return frozenset(
        frozenset(task for task, cluster in zip(tasks, labels, strict=True) if cluster == label)
        for label in np.unique(labels[labels >= 0])
    )


def of_letters(written: str) -> Partition:
    """As the paper writes them: MS-ER."""
    return frozenset(frozenset(FOUR[letter] for letter in cluster) for cluster in written.split("-"))


def together(tasks: Sequence[str]) -> Partition:
    return frozenset({frozenset(tasks)})


def alone(tasks: Sequence[str]) -> Partition:
    return frozenset(frozenset({task}) for task in tasks)


def every(tasks: Sequence[str]) -> Iterator[Partition]:
    """All of them: 15 of four tasks."""
    if not tasks:
        yield frozenset()
        return
    for rest in every(tasks[1:]):
        yield rest | {frozenset({tasks[0]})}
        for cluster in rest:
            yield (rest - {cluster}) | {cluster | {tasks[0]}}


def merges(data: xr.Dataset) -> tuple[str, str]:
    """What merges a cluster, and the bases."""
    return str(data.attrs["merge_in"]), str(data.attrs["merge_out"])


def chosen(data: xr.Dataset) -> int:
    """The number of clusters that the largest gap of the Laplacian's eigenvalues chose."""
    return int(data["chosen_clusters"])


def chosen_by_code(cosine: Array) -> int:
    """The number of clusters as the paper's code chooses it, of signed cosines and the largest of all gaps.

    1 + argmax over all i of λ_{i+1} − λ_i, λ ascending, of D − M, M the cosines with their signs and D their
    sums: it may be 1, which the paper's text excludes.
    """
    similarity = cosine.astype(float)
    eigenvalues = np.linalg.eigvalsh(np.diag(similarity.sum(axis=1)) - similarity)
    return int(np.diff(eigenvalues).argmax()) + 1 if len(eigenvalues) > 1 else 1


def spectral(data: xr.Dataset, clusters: int) -> Array | None:
    """[T]: each task's cluster in the spectral partition into so many, −1 of tasks that were left out.

    None where that was not measured.
    """
    rows = np.flatnonzero(data["clusters"].to_numpy() == clusters)
    if not len(rows):
        return None
    labels = data["labels"].to_numpy()[rows[0], 0].astype(int)
    return labels if (labels >= 0).any() else None


def merged(data: xr.Dataset) -> Array:
    """[T] of booleans: which tasks were clustered; others do not beat the majority vote (paper 2, D.3)."""
    return np.asarray((data["labels"].to_numpy() >= 0).any(axis=(0, 1)))


def listed(data: xr.Dataset) -> Iterator[tuple[tuple[int, int], Array]]:
    """(k, partition) and the tasks' labels of all that were measured; places that hold none are left out."""
    labels = data["labels"].to_numpy()
    for place in np.ndindex(*labels.shape[:2]):
        if (labels[place] >= 0).any():
            yield (int(place[0]), int(place[1])), labels[place].astype(int)


def measured(results: Results, regime: str, merge_in: str, merge_out: str) -> dict[Partition, Measured]:
    """Accuracy of the merged model, mean over tasks, of every partition that was merged by these methods.

    All tasks in one cluster, merged and scaled, and every task alone are merges without bases too.
    """
    names = [task.lower() for task in results.tasks]
    data = results.data("bases", regime)
    held = merged(data) if data is not None else np.ones(len(names), dtype=bool)
    names = [name for name, is_held in zip(names, held, strict=True) if is_held]
    scores: dict[Partition, Measured] = {}
    if merge_out == "task_arithmetic":
        joint = {"joint": "multitask", "tangent": "multitask_linear"}
        scores |= _of("multitask", joint.get(merge_in, ""), results, together(names), held)
        scores |= _of("merging", f"{merge_in}/{regime}", results, together(names), held)
        scores |= _of("addition", regime, results, alone(names), held)
    if alone(names) not in scores:
        scores |= _of("merging", f"{merge_out}/{regime}", results, alone(names), held)
    if data is None or merges(data) != ({"tangent": "joint"}.get(merge_in, merge_in), merge_out):
        return scores
    test = accuracies.accuracies(results, "bases", regime, "accuracy")
    assert test is not None
    for place, labels in listed(data):
        values = test.value.to_numpy()[place].astype(float)
        scores[of_labels(labels[labels >= 0], names)] = measured_mean(values, test.error[place])
    return scores


def _of(
    group: str, name: str, results: Results, partition: Partition, held: Array
) -> dict[Partition, Measured]:
    """The one merged model of a group, where it was measured: its mean over the tasks that are clustered."""
    if not name or results.data(group, name) is None:
        return {}
    if group == "addition":
        sums = added(results, name)
        assert sums is not None
        return {partition: measured_mean(sums.accuracy[held], sums.accuracy_error[held])}
    variable = "accuracy" if group == "multitask" else "test_accuracy"
    test = accuracies.accuracies(results, group, name, variable)
    data = results.data(group, name)
    assert test is not None and data is not None
    if group == "multitask":
        return {partition: measured_mean(test.value.to_numpy()[held].astype(float), test.error[held])}
    place = means.place_of(data["alpha"].to_numpy(), float(data["coefficient"]))
    assert place is not None
    value, error = test.value.to_numpy()[place].astype(float), test.error[place]
    return {partition: measured_mean(value[held], error[held])}


LABELLED = 9  # tasks of which all partitions are looked at: 21,147


def labelled(count: int) -> Array:
    """All partitions of so many tasks [Q,T], labels numbered as they come: 4,140 of eight."""
    rows = np.zeros((1, 0), dtype=np.int64)
    for _ in range(count):
        most = rows.max(axis=1, initial=-1) + 1
        rows = np.repeat(rows, most + 1, axis=0)
        last = np.concatenate([np.arange(label + 1) for label in most])
        rows = np.column_stack([rows, last])
    return rows


def modularity(cosine: Floats, labels: Array) -> Floats:
    """The modularity of partitions [Q,T] of tasks that resemble each other by |cosine| [T,T] (Newman 2004).

    What is inside of clusters beyond what their degrees make expected, so that partitions into other numbers
    of clusters compare; without any similarity 0.
    """
    weight = np.abs(cosine)
    np.fill_diagonal(weight, 0)
    whole, degree = weight.sum(), weight.sum(axis=1)
    if whole == 0:
        return np.zeros(len(labels))
    surplus = weight / whole - np.outer(degree, degree) / whole**2
    same = labels[:, :, None] == labels[:, None, :]
    return np.asarray((surplus * same).sum(axis=(1, 2)))


def lettered(results: Results, regime: str, merge_in: str, merge_out: str) -> dict[Partition, Measured]:
    """All partitions of four tasks of this run, which stand for the paper's by their place."""
    both = (
        results.data("every_partition", f"{name}/{regime}") for name in (merge_in, f"{merge_in}+{merge_out}")
    )
    data = next(
        (dataset for dataset in both if dataset is not None and dataset.attrs["merge_out"] == merge_out), None
    )
    if data is None or data.sizes["member"] != len(FOUR):
        return {}
    accuracy = data["accuracy"].to_numpy().astype(float)
    member = data["member"].to_numpy().astype(int)
    points = (data["sample_index"].to_numpy()[member] >= 0).sum(axis=1)
    errors = sampling.binomial(accuracy, np.broadcast_to(points, accuracy.shape))
    return {
        of_labels(labels, list(FOUR.values())): measured_mean(values, error)
        for labels, values, error in zip(data["labels"].to_numpy(), accuracy, errors, strict=True)
    }


@dataclass(frozen=True)
class Nearest:
    """A task that was held out: cosine with the nearest mean of a cluster, and with the nearest vector."""

    task: str
    basis: Floats  # one a partition of the others
    single: float
    nearest: str  # whose vector that is


def nearest(run: Run, regime: str) -> list[Nearest]:
    """Held-out tasks against means of the others' clusters (the paper's figure 10, of Mean).

    From norms and cosines of /similarity. Where the run has the paper's four tasks and more, all 15
    partitions of the four and each further task; else each task against the others, in those of /bases.
    """
    vectors, data = run.data("similarity", regime), run.data("bases", regime)
    names = [task.lower() for task in run.results.tasks]
    if vectors is None:
        return []
    four = set(FOUR.values()) < set(names)
    if four:
        stored = set(every(list(FOUR.values())))
        held = [task for task in names if task not in FOUR.values()]
    elif data is not None and len(names) > 2:
        stored = {of_labels(labels, names) for _, labels in listed(data)}
        held = names
    else:
        return []
    norm = vectors["norm"].to_numpy().astype(float)
    gram = vectors["cosine"].to_numpy().astype(float) * np.outer(norm, norm)
    rows = []
    for task in held:
        place = names.index(task)
        others = [
            {frozenset(cluster - {task}) for cluster in partition} - {frozenset()}
            for partition in sorted(
                stored, key=lambda partition: sorted(sorted(cluster) for cluster in partition)
            )
        ]
        left = {name for cluster in others[0] for name in cluster}
        cosines = [
            max(_cosine(gram, place, [names.index(name) for name in cluster]) for cluster in partition)
            for partition in others
        ]
        single = {name: _cosine(gram, place, [names.index(name)]) for name in names if name in left}
        best = max(single, key=lambda name: single[name])
        rows.append(Nearest(run.results.tasks[place], np.array(cosines), single[best], best))
    return rows


PRINTED = {"linear": "Mean", "joint": "MTL", "ties": "TIES", "fisher": "Fisher", "top_k": "Topk"}


def nearest_by_method(run: Run, regime: str) -> dict[str, dict[str, Floats]]:
    """Held-out tasks against each method's bases: cosine with the nearest one, a number a partition.

    Of runs with all partitions of a few tasks, by the methods' names in the paper: joint is its MTL and, of
    linear fine-tuning, its Tangent.
    """
    cosines: dict[str, dict[str, Floats]] = {}
    for name in run.results.by_method("every_partition"):
        method, data_regime = name.split("/")
        data = run.data("every_partition", name)
        tangent = (method, data_regime) == ("joint", "linear")
        if data is None or "nearest" not in data or (data_regime != regime and not tangent):
            continue
        cosine, place = data["cosine"].to_numpy().astype(float), data["nearest"].to_numpy().astype(int)
        cosines["Tangent" if tangent else PRINTED.get(method, method)] = {
            run.results.tasks[int(task)]: row[chosen]
            for task, row, chosen in zip(data["other"].to_numpy(), cosine, place, strict=True)
        }
    return cosines


def _cosine(gram: Floats, task: int, cluster: list[int]) -> float:
    """The cosine of a task's vector with the mean of others."""
    length = np.sqrt(gram[task, task] * gram[np.ix_(cluster, cluster)].mean())
    return float(gram[task, cluster].mean() / length) if length > 0 else 0.0


def gaps(run: Run, regime: str) -> tuple[Floats, Floats] | None:
    """|cosine| of tasks i and j, and i's loss gap at θ0 + α (τ_i + τ_j), both [T,T]; NaN: not measured."""
    data = run.data("similarity", regime)
    if data is None or "loss_gap" not in data:
        return None
    cosine = np.abs(data["cosine"].to_numpy().astype(float))
    gap = np.full(cosine.shape, np.nan)
    for (i, j), both in zip(run.results.pairs, data["loss_gap"].to_numpy(), strict=True):
        gap[i, j], gap[j, i] = both
    cosine[np.isnan(gap)] = np.nan
    return cosine, gap
