# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""τJp along the further steps."""

from __future__ import annotations

import numpy as np
import xarray as xr

from taugrid_analysis.numbers import means
from taugrid_analysis.numbers.arrays import Array, Floats


def pair_trace(record: xr.Dataset, pairs: Array) -> Floats:
    """[S,P]: τJp of every pair along the steps of a continuation."""
    return np.stack([means.of_pairs(means.symmetric(value), pairs) for value in record["tau_jp"].to_numpy()])


def extreme_pairs(record: xr.Dataset, pairs: Array) -> tuple[int, int]:
    """The pairs of most and of least interference (τJp) before the further steps."""
    first = pair_trace(record, pairs)[0]
    finite = np.isfinite(first)
    return int(np.argmax(np.where(finite, first, -np.inf))), int(np.argmin(np.where(finite, first, np.inf)))
