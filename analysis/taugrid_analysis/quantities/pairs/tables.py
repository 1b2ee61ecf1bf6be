# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One line a pair: everything that the file knows of it."""

from __future__ import annotations

import pandas as pd

from taugrid_analysis.page.cells import cell
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.quantities.predictors import lines
from taugrid_analysis.run.opened import Run


def pairs(run: Run) -> Table:
    """One line a pair: everything that the file knows of it."""
    columns = [Column("pair")]
    if run.pairs.empty:
        return Table("pairs", "Every pair", columns, [])
    values: list[list[Value]] = [[] for _ in run.results.pairs]

    def put(name: str, numbers: list[Value], digits: int, percent: bool = False) -> None:
        columns.append(Column(name, digits, percent=percent))
        for row, value in zip(values, numbers, strict=True):
            row.append(value)

    def take(regime: str, column: str, title: str, digits: int, percent: bool = False) -> None:
        frame: pd.DataFrame = run.pairs.loc[regime]
        numbers: list[Value] = [cell(row, column) for _, row in frame.iterrows()]
        put(f"{regime} {title}", numbers, digits, percent)

    for regime in run.results.names("disentanglement"):
        for column, title in (("xi_one", "ξ(1,1)"), ("xi_box", "box"), ("xi_grid", "grid")):
            take(regime, column, title, 3)

    def measured(regime: str, column: str) -> bool:
        known = regime in run.pairs.index.get_level_values("regime")
        return known and bool(run.pairs.loc[regime][column].notna().any())

    for regime in run.results.names("similarity"):
        take(regime, "cosine", "cosine", 3)
        for column in ("loss_gap_1", "loss_gap_2"):
            if measured(regime, column):
                take(regime, column, column.replace("_", " "), 3)
    for regime in run.results.names("linearity"):
        if measured(regime, "linearity"):
            take(regime, "linearity", "linearity error", 4)
    for regime in run.results.names("tau_jp"):
        take(regime, "tau_jp", "τJp", 4)
    for regime in run.results.names("pair_addition"):
        for title, column in lines.ACCURACIES.items():
            take(regime, column, title, 1, percent=True)
    for regime in run.results.names("smoothness"):
        for column in ("bound_1", "bound_2"):
            if measured(regime, column):
                take(regime, column, column.replace("_", " "), 3)
    first = run.pairs.index.get_level_values("regime")[0]
    if measured(first, "ntk"):  # of θ0, whatever the regime
        put("NTK share − null", [float(value) for value in run.pairs.loc[first]["ntk"]], 3)
    rows = [[run.results.pair_name(index), *row] for index, row in enumerate(values)]
    return Table("pairs", "Every pair", columns, rows if len(columns) > 1 else [])
