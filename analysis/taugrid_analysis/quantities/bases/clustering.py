# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Spectral partitions again: none has a smaller sum of squares, of all that there are."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.bases.partitions import LABELLED, labelled
from taugrid_analysis.recompute.checks import Reading, relative

COUNTED = LABELLED  # tasks of which all partitions are looked at


def rows(cosine: Array, k: int) -> Array:
    """Leading k eigenvectors of D^−½ W D^−½, rows of unit length (Ng, Jordan and Weiss, 2001)."""
    w = np.abs(cosine)
    np.fill_diagonal(w, 0)
    degree = w.sum(1)
    half = np.where(degree > 0, degree, np.inf) ** -0.5
    leading = np.linalg.eigh(half[:, None] * w * half)[1][:, -k:]
    length = np.linalg.norm(leading, axis=1, keepdims=True)
    return np.asarray(leading / np.where(length > 0, length, 1))


@lru_cache(1)
def _members(count: int) -> Array:
    """The clusters [Q,T,C] of all partitions [Q], each over the root of its size."""
    labels = labelled(count)
    inside = (labels[:, :, None] == np.arange(count)).astype(float)
    size = inside.sum(1, keepdims=True)
    return np.asarray(inside / np.sqrt(np.maximum(size, 1)))


def as_good_as_any(cosine: Array, labels: Array, k: int) -> Reading:
    """The sum of squares of a partition into k clusters beside the least of all into so many, or fewer."""
    points = rows(cosine.copy(), k)
    whole = float((points**2).sum())
    every = labelled(len(labels))
    # Σ |x − mean|² is Σ |x|² without Σ over clusters of |Σ x|² over their size.
    kept = np.einsum("qtc,td->qcd", _members(len(labels))[every.max(axis=1) < k], points)
    least = whole - float((kept**2).sum(axis=(1, 2)).max())
    squares = sum(
        float(((points[labels == c] - points[labels == c].mean(0)) ** 2).sum()) for c in np.unique(labels)
    )
    return relative(squares, max(least, 0.0), floor=1e-9)
