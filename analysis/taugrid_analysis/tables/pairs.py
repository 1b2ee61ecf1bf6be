# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Pairs of tasks: how far two task vectors disturb each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from taugrid_analysis import correlation, measures, outcomes, predictors
from taugrid_analysis.lacks import SPLIT
from taugrid_analysis.measures import mean
from taugrid_analysis.run import Run
from taugrid_analysis.tables.cells import cell
from taugrid_analysis.text_table import Column, Table, Value


def disentanglement(run: Run) -> Table:
    near = measures.NEAR_ORIGIN
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
    counts = measures.points(grid)
    points = (
        f"{int(counts.max()):,} {grid.attrs.get(SPLIT, 'test')} points a task, " if counts is not None else ""
    )
    alpha = grid["alpha_1"].to_numpy()
    return (
        f"{measures.metric(grid)}, {points}{len(alpha)}×{len(alpha)} grid on [{alpha[0]:g}, {alpha[-1]:g}]²,"
        " summed over the two tasks."
    )


def representation(run: Run) -> Table:
    """The encoder's outputs beside the classifiers' predictions (paper 4, section 4)."""
    table = Table(
        "representation",
        "Disentanglement error of the encoder's output (KL, nat) beside the predictions', mean over pairs",
        [
            Column("regime"),
            *[
                Column(f"{kind} {place}", 4)
                for kind in ("KL", "½ sym. KL")
                for place in ("(1,1)", "box", "grid")
            ],
            *[Column(f"ξ{place}", 3) for place in ("(1,1)", " box", " grid")],
            Column("rank correlation at (1,1)", 2),
        ],
    )
    for regime in run.results.names("representation"):
        frame = run.pairs.loc[regime]
        row: list[Value] = [regime]
        for prefix in ("kl", "symmetric_kl", "xi"):
            row += [mean(frame[f"{prefix}_{place}"]) for place in ("one", "box", "grid")]
        row.append(correlation.rank_correlation(frame["kl_one"].to_numpy(), frame["xi_one"].to_numpy()))
        table.rows.append(row)
    if table.rows:
        table.notes += [
            "box: grid points in [0,1]²; grid: all of them. Without ±: divergences of single points are not"
            " stored.",
            "KL: of θ0 + α_t τ_t from the sum, as equation 2 of the attention paper; ½ sym. KL: half the sum"
            " of both directions, as its authors' code.",
            "The colours of its figures 6 and 8 (0 to about 0.2) are of the symmetric kind. They are lower"
            " still: the code adds up 16 batches of 128 and divides by all batches of the test split (63 of"
            " Cars, 50 of RESISC45), so compare ½ sym. KL × 16/63 or × 16/50 with them.",
        ]
    return table


def tau_jp(run: Run) -> Table:
    """Every ordered pair and the mean of both directions (paper 3, equation 9)."""
    table = Table(
        "tau_jp",
        "τJp: mean ‖J(x)τ‖² over the other task's points, J of the encoder's output at θ0",
        [
            Column("regime"),
            Column("pair A + B"),
            Column("τ of A, x of B", 4),
            Column("τ of B, x of A", 4),
            Column("τJp", 4),
            Column("on validation", 4),
        ],
    )
    columns = ["tau_jp_12", "tau_jp_21", "tau_jp", "tau_jp_validation"]
    for regime in run.results.names("tau_jp"):
        data = run.data("tau_jp", regime)
        assert data is not None
        frame = run.pairs if run.pairs.empty else run.pairs.loc[regime]
        for pair, row in frame.iterrows():
            table.rows.append([regime, str(pair), *[float(row[name]) for name in columns]])
        table.rows.append([regime, "mean", *[mean(frame[name]) for name in columns]])
        own = f"{regime}: mean over the task's own points {np.diag(data['value'].to_numpy()).mean():.4f}"
        if "control" in data:
            own += f", over the control's {float(data['control'].mean()):.4f}"
        table.notes.append(own + ".")
    if table.rows:
        table.notes.append("Without ±: ‖J(x)τ‖² of single points is not stored.")
    return table


def continuation(run: Run) -> Table:
    """Regularised steps after linear fine-tuning (paper 3, figure 3)."""
    table = Table(
        "continuation",
        "Further steps with the τJp regulariser from linear task vectors, α = 1",
        [
            Column("regime"),
            Column("step"),
            Column("mean τJp", 4),
            Column("pairs normalized", 1, percent=True),
            Column("all normalized", 1, percent=True),
            Column("pair of most τJp"),
            Column("its τJp", 4),
            Column("its normalized", 1, percent=True),
            Column("pair of least τJp"),
            Column("that one's τJp", 4),
            Column("that one's normalized", 1, percent=True),
        ],
    )
    for regime in run.results.names("continuation"):
        record = run.data("continuation", regime)
        assert record is not None
        products = outcomes.pair_trace(record, run.results.pairs)
        extremes = outcomes.extreme_pairs(record, run.results.pairs)
        accuracy = record["pair_normalized"].to_numpy()
        for place, step in enumerate(record["step"].to_numpy()):
            row: list[Value] = [regime, int(step), mean(products[place]), mean(accuracy[place])]
            row.append(float(record["normalized"][place]))
            for pair in extremes:
                row += [
                    run.results.pair_name(pair),
                    float(products[place, pair]),
                    float(accuracy[place, pair]),
                ]
            table.rows.append(row)
    if table.rows:
        table.notes += [
            "The pairs of most and least τJp are those of the first step listed.",
            "Without ±: which points are right is not stored along the steps.",
        ]
    return table


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
        for title, column in predictors.ACCURACIES.items():
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
