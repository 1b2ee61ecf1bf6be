# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""/correct: which points an evaluated model got right, a bit a point (schema 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.run.store import Store

TOLERANCE = 1e-6  # of an accuracy, which may be stored in single precision


@dataclass(frozen=True)
class Correct:
    """Beside accuracies [...]: `bits` [..., N], True where right and False beyond a row's `points` [...]."""

    bits: Array
    points: Array

    def of(self, *index: int) -> Array:
        """The points of one model, as they were drawn."""
        return np.asarray(self.bits[index][: int(self.points[index])])


def read(store: Store, path: str, accuracy: Array) -> Correct | None:
    """The bits beside the accuracies at `path`; None where the file has none.

    They are packed as by numpy.packbits along the last axis, rows padded with zero bits; attribute `points`.
    """
    where = f"/correct/{path.lstrip('/')}"
    if not store.has(where):
        return None
    shape = np.shape(accuracy)
    packed = store.array(where, (*shape, None))
    if packed.dtype != np.uint8:
        raise InputError(f"holds {packed.dtype}", store.where(where), "uint8, eight points each")
    points = np.asarray(store.attribute(where, "points", "how many points of each row count"))
    try:
        points = np.broadcast_to(points, shape)
    except ValueError:
        raise InputError(
            f"points has shape {list(points.shape)}", store.where(where), f"shape {list(shape)}"
        ) from None
    most = 8 * packed.shape[-1]
    if points.dtype.kind not in "iu" or np.any(points < 0) or np.any(points > most):
        raise InputError("points is wrong", store.where(where), f"whole numbers from 0 to {most}")
    bits = np.unpackbits(packed, axis=-1).astype(bool)
    beyond = np.arange(most) >= points[..., None]
    if np.any(bits & beyond):
        raise InputError("has bits beyond its points", store.where(where), "rows padded with zero bits")
    share = shares(bits, points)
    stored = np.asarray(accuracy, dtype=float)
    if np.any(np.abs(share - stored)[np.isfinite(share) & np.isfinite(stored)] > TOLERANCE):
        raise InputError("disagrees with the accuracies", store.where(where), f"those of /{path.lstrip('/')}")
    return Correct(bits, points)


def shares(bits: Array, points: Array) -> Floats:
    """The accuracies again; NaN where no point counts."""
    right = bits.sum(axis=-1)
    return np.asarray(np.where(points > 0, right / np.maximum(points, 1), np.nan))
