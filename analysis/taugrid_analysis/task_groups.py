# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Tasks by the likeness of their vectors, beside the natural groups that their data sets name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform
from scipy.special import comb

from taugrid_analysis.records import Array


@dataclass(frozen=True)
class Clusters:
    order: Array  # of tasks, neighbours being alike
    labels: Array  # of tasks, by cluster


def clusters(cosine: Array, count: int) -> Clusters:
    """By average linkage of 1 − |cosine|, cut at `count` clusters at most."""
    distance = 1 - np.abs(cosine)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(np.clip(distance, 0, None), checks=False), "average", optimal_ordering=True)
    return Clusters(leaves_list(tree), fcluster(tree, count, "maxclust"))


def adjusted_rand_index(one: Array, other: Array) -> float:
    """1 for equal partitions, 0 on average for random ones (Hubert and Arabie, 1985)."""
    table = np.array([[np.sum((one == a) & (other == b)) for b in np.unique(other)] for a in np.unique(one)])
    both = comb(table, 2).sum()
    rows, columns = comb(table.sum(1), 2).sum(), comb(table.sum(0), 2).sum()
    chance = rows * columns / comb(len(one), 2)
    most = (rows + columns) / 2
    return 1.0 if most == chance else float((both - chance) / (most - chance))
