# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frame of pairs tells of the encoder's output."""

from __future__ import annotations

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.disentanglement.columns import of_grid
from taugrid_analysis.run.results import Results


def of_pairs(results: Results, regime: str) -> dict[str, Array]:
    grid = results.data("representation", regime)
    return of_grid(grid, "error", "kl", results) | of_grid(grid, "symmetric_error", "symmetric_kl", results)
