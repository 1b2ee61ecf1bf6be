# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""/bases of a synthetic results.h5: every number of clusters, its spectral partition and random ones."""

from __future__ import annotations

from itertools import product

import h5py
import numpy as np

POINTS = 100


def labels_of(count: int, clusters: int, turn: int) -> list[int]:
    """Numbered as they come: the first tasks one a cluster, the others in turns."""
    labels = [(task * (turn + 1)) % clusters if task >= clusters else task for task in range(count)]
    order = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return [order[label] for label in labels]


def write(
    file: h5py.File,
    regime: str,
    partitions: dict[int, list[list[int]]] | None = None,
    merge: tuple[str, str] = ("linear", "task_arithmetic"),
    chosen: int = 2,
) -> dict[tuple[int, ...], float]:
    """Mean accuracy of each partition's labels. partitions: k: lists of labels, the spectral ones first."""
    tasks = len(file["tasks/name"])
    if partitions is None:
        partitions = {
            k: list({tuple(row): row for turn in range(3) for row in [labels_of(tasks, k, turn)]}.values())
            for k in range(1, tasks + 1)
        }
    most = max(map(len, partitions.values()))
    group = file.create_group(f"bases/{regime}")
    rows = len(partitions)
    labels = np.full((rows, most, tasks), -1, dtype=np.int64)
    accuracy = np.full((rows, most, tasks), np.nan)
    for (row, every), p in product(enumerate(partitions.values()), range(most)):
        if p < len(every):
            labels[row, p] = every[p]
            accuracy[row, p] = np.round(0.5 + 0.01 * row + 0.002 * p + np.arange(tasks) / 50, 6)
    group["clusters"] = np.array(list(partitions), dtype=np.int64)
    group["labels"], group["accuracy"] = labels, accuracy
    group["absolute"] = accuracy.mean(axis=2)
    group["normalized"] = accuracy.mean(axis=2) / 0.8
    group["alpha"] = np.array([1.0, 1.5])
    group["validation_accuracy"] = np.stack([accuracy - 0.02, accuracy], axis=2)
    group["coefficient"] = np.full((rows, most), 1.5)
    group["chosen_clusters"] = chosen
    group["cosine"] = file[f"similarity/{regime}/cosine"][()]
    group["eigenvalues"] = np.cumsum(np.linspace(0, 1, tasks))
    group["normalised_eigenvalues"] = np.linspace(0, 1, tasks)
    group["sample_index"] = np.tile(np.arange(POINTS), (tasks, 1))
    group.attrs["merge_in"], group.attrs["merge_out"] = merge
    return {
        tuple(labels[row, p].tolist()): float(accuracy[row, p].mean())
        for row, p in product(range(rows), range(most))
        if labels[row, p, 0] >= 0
    }
