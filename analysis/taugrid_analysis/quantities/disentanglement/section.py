# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's sections of ξ: every pair's grid, and the grids' diagonals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.disentanglement import figures, xi
from taugrid_analysis.run.opened import Run

MOST_CELLS = 130_000  # of all grids that are drawn


def drawn_grids(run: Run) -> dict[str, xr.Dataset]:
    """The grids that fit on a page of 2 MB: all, for 28 pairs, 11 regimes and 20×20 coefficients."""
    drawn, cells = {}, 0
    for name, grid in figures.grids(run).items():
        cells += grid["error"].size
        if cells <= MOST_CELLS:
            drawn[name] = grid
    return drawn


def _grids(run: Run) -> list[Figure | None]:
    grids = figures.grids(run)
    if not grids:
        return []
    top, above = figures.upper(grids)
    return [figures.triangle(run, name, grid, top, above > 0) for name, grid in drawn_grids(run).items()]


def _grid_caption(run: Run) -> str:
    grids = figures.grids(run)
    if not grids:
        return ""
    top, above = figures.upper(grids)
    drawn = drawn_grids(run)
    left = [name for name in grids if name not in drawn]
    without = f" Not drawn, to keep the page small: {', '.join(left)}." if left else ""
    clipped = f" {100 * above:.2g} % of the cells lie above and take the darkest colour." if above > 0 else ""
    count, tasks_known = len(run.results.pairs), len(run.results.tasks)
    which = "All" if count == tasks_known * (tasks_known - 1) // 2 else "The measured"
    return (
        f"{which} {count} pairs, one panel each; one colour scale, 0 to {top:.3g}, for all"
        f" regimes; light is disentangled.{clipped} Red: [0,1]², where α for addition is searched. Point at a"
        f" cell to read it.{without}"
    )


def matched(run: Run) -> pd.DataFrame:
    """ξ(α,α): mean and quartiles over pairs, against α and against the length of the step."""
    grids = figures.grids(run)
    known = {name: data for name in grids if (data := run.data("similarity", name)) is not None}
    common = xi.matched_norm(grids, known, run.results.pairs)
    curves = [(name, "alpha", *xi.diagonal(grid)) for name, grid in grids.items()]
    curves += (
        [(name, "length", common.length, error) for name, error in common.error.items()] if common else []
    )
    parts = []
    for name, axis, x, values in curves:
        low, high = np.nanquantile(values, [0.25, 0.75], axis=0)
        columns = {
            "regime": name,
            "axis": axis,
            "x": x,
            "mean": values.mean(axis=0),
            "low": low,
            "high": high,
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts) if parts else pd.DataFrame()


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "disentanglement",
            "Disentanglement error of every pair",
            "disentanglement",
            _grid_caption(run),
            _grids(run),
            {"disentanglement.csv": "xi"},
        ),
        Part(
            "matched",
            "Equal α and matched norm",
            "disentanglement",
            "ξ along the diagonal α₁ = α₂ = α: mean over pairs, band from the lower to the upper quartile."
            " Left against α; right against the length of the step, so that a regime does not look better"
            " only because its task vectors are shorter. Linear between grid points, further apart for longer"
            " vectors: where ξ bends upwards that raises their curve a little. The axis ends where the first"
            " pair leaves its grid.",
            [figures.matched(run)],
            {"matched.csv": lambda: matched(run)},
        ),
    ]
