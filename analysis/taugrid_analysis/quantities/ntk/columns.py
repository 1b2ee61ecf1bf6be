# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frame of pairs tells of the NTK at θ0, whatever the regime."""

from __future__ import annotations

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.ntk.shares import ntk_separation
from taugrid_analysis.run.results import Results


def of_pairs(results: Results, regime: str) -> dict[str, Array]:
    kernel = results.data("ntk", results.start)
    separation = ntk_separation(kernel, results.pairs) if kernel is not None else None
    return {"ntk": separation if separation is not None else results.nothing()}
