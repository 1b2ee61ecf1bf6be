# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frames tell of ξ: at (1,1), over [0,1]² and over the grid, with the errors of the points."""

from __future__ import annotations

import numpy as np
import xarray as xr

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.means import mean
from taugrid_analysis.numbers.measured import NOTHING, Measured
from taugrid_analysis.quantities.disentanglement import xi
from taugrid_analysis.run.results import Results


def of_grid(grid: xr.Dataset | None, variable: str, prefix: str, results: Results) -> dict[str, Array]:
    """prefix_one, _box and _grid of every pair."""
    columns = [f"{prefix}_one", f"{prefix}_box", f"{prefix}_grid"]
    if grid is None or variable not in grid:
        return dict.fromkeys(columns, results.nothing())
    numbers = (
        xi.at(grid, 1.0, 1.0, variable),
        xi.box_mean(grid, 0.0, 1.0, variable),
        xi.box_mean(grid, variable=variable),
    )
    return dict(zip(columns, numbers, strict=True))


def of_pairs(results: Results, regime: str) -> dict[str, Array]:
    grid = results.data("disentanglement", regime)
    columns = of_grid(grid, "error", "xi", results)
    columns |= dict.fromkeys([f"{column}_error" for column in columns], results.nothing())
    return columns if grid is None else columns | _errors(grid, results.pairs)


def _errors(grid: xr.Dataset, pairs: Array) -> dict[str, Array]:
    """A pair's cells have the same points: a mean over cells has at most the mean of their errors."""
    at_one = np.hypot(*xi.at_errors(grid, 1.0, 1.0, pairs).T)
    terms = xi.errors(grid, pairs)
    if terms is None:
        return {"xi_one_error": at_one}
    cells = np.hypot(terms[:, 0], terms[:, 1])
    inside = cells[(..., *xi.box(grid, 0.0, 1.0))]
    unknown = np.full(len(pairs), np.nan)
    return {
        "xi_one_error": at_one,
        "xi_box_error": inside.mean(axis=(1, 2)) if inside.size else unknown,
        "xi_grid_error": cells.mean(axis=(1, 2)),
    }


def of_regime(results: Results, regime: str) -> dict[str, float]:
    """Means over pairs, also near the origin."""
    grid, pairs = results.data("disentanglement", regime), results.pairs
    if grid is None:
        return dict.fromkeys(("xi_near", "xi_one", "xi_box", "xi_grid"), NOTHING)
    values: dict[str, float] = {}
    for column, alpha in (("xi_near", xi.NEAR_ORIGIN), ("xi_one", 1.0)):
        error = xi.pairs_mean_error(xi.at_errors(grid, alpha, alpha, pairs), pairs)
        values[column] = Measured(mean(xi.at(grid, alpha, alpha)), error)
    errors = xi.mean_errors(grid, pairs)
    for column, box in (("xi_box", (0.0, 1.0)), ("xi_grid", (-np.inf, np.inf))):
        cells = errors[xi.box(grid, *box)] if errors is not None else np.array([])
        values[column] = Measured(mean(xi.box_mean(grid, *box)), cells.mean() if cells.size else np.nan)
    return values
