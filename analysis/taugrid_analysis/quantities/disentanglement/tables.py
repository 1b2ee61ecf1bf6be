# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""ξ near the origin, at (1,1), over the search box and over the whole grid."""

from __future__ import annotations

import xarray as xr

from taugrid_analysis.page.cells import cell
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.quantities.disentanglement import xi
from taugrid_analysis.run.older_schema import SPLIT
from taugrid_analysis.run.opened import Run


def disentanglement(run: Run) -> Table:
    near = xi.NEAR_ORIGIN
    table = Table(
        "disentanglement",
        f"Disentanglement error ξ(α1,α2), mean over {len(run.results.pairs)} pairs",
        [
            Column("regime"),
            Column(f"ξ({near},{near})", 3),
            Column("ξ(1,1)", 3),
            Column("search box [0,1]²", 3),
            Column("whole grid", 3),
            Column("worst pair at (1,1)", 3),
            Column("which"),
        ],
    )
    for regime in run.results.names("disentanglement"):
        grid, row, frame = run.data("disentanglement", regime), run.summary.loc[regime], run.pairs.loc[regime]
        assert grid is not None
        worst = frame.loc[frame["xi_one"].idxmax()] if frame["xi_one"].notna().any() else None
        table.rows.append(
            [
                regime,
                cell(row, "xi_near"),
                cell(row, "xi_one"),
                cell(row, "xi_box"),
                cell(row, "xi_grid"),
                cell(worst, "xi_one") if worst is not None else None,
                str(worst.name) if worst is not None else "",
            ]
        )
        table.notes.append(f"{regime}: {_measured(grid)}")
    if table.rows:
        table.notes.append(
            "Means over a box are over its grid points; a point off the grid is bilinear. ±: one standard"
            " error of the evaluation sample; of means over pairs at most that, as all pairs of a task have"
            " the same points."
        )
    return table


def _measured(grid: xr.Dataset) -> str:
    counts = xi.points(grid)
    points = (
        f"{int(counts.max()):,} {grid.attrs.get(SPLIT, 'test')} points a task, " if counts is not None else ""
    )
    alpha = grid["alpha_1"].to_numpy()
    return (
        f"{xi.metric(grid)}, {points}{len(alpha)}×{len(alpha)} grid on [{alpha[0]:g}, {alpha[-1]:g}]²,"
        " summed over the two tasks."
    )


TABLES = {"disentanglement": disentanglement}
