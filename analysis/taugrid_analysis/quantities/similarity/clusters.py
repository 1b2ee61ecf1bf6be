# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Tasks by the likeness of their vectors, beside the natural groups that their data sets name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform

from taugrid_analysis.numbers.arrays import Array


@dataclass(frozen=True)
class Clusters:
    order: Array  # of tasks, neighbours being alike
    labels: Array  # of tasks, by cluster


def clusters(cosine: Array, count: int) -> Clusters:
    """Clusters tasks by average linkage of 1 − |cosine|, cut at `count` clusters at most.

    A vector of zeros, whose cosines are NaN, is like no other.
    """
    distance = 1 - np.abs(np.nan_to_num(cosine))
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(np.clip(distance, 0, None), checks=False), "average", optimal_ordering=True)
    return Clusters(leaves_list(tree), fcluster(tree, count, "maxclust"))
