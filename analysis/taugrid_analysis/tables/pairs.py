# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Pairs of tasks: how far two task vectors disturb each other, and what predicts it."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import correlation, measures, outcomes, predictors
from taugrid_analysis.measures import mean
from taugrid_analysis.results import Results
from taugrid_analysis.text_table import Column, Table, Value


def disentanglement(results: Results) -> Table:
    near = measures.NEAR_ORIGIN
    table = Table(
        "disentanglement",
        f"Disentanglement error ξ(α1,α2), mean over {len(results.pairs)} pairs",
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
    for regime in results.names("disentanglement"):
        grid = results.disentanglement(regime)
        assert grid is not None
        one = measures.at(grid, 1.0, 1.0)
        known = bool(np.isfinite(one).any())
        worst = int(np.nanargmax(one)) if known else 0
        table.rows.append(
            [
                regime,
                mean(measures.at(grid, near, near)),
                mean(one),
                mean(measures.box_mean(grid, 0.0, 1.0)),
                mean(measures.grid_mean(grid)),
                float(one[worst]) if known else None,
                results.pair_name(worst) if known else "",
            ]
        )
        points = f"{grid.samples:,} points a task, " if grid.samples else ""
        table.notes.append(
            f"{regime}: {grid.metric}, {points}{len(grid.alpha)}×{len(grid.alpha)} grid on"
            f" [{grid.alpha[0]:g}, {grid.alpha[-1]:g}]², summed over the two tasks."
        )
    if table.rows:
        table.notes.append("Means over a box are over its grid points; a point off the grid is bilinear.")
    return table


def representation(results: Results) -> Table:
    """The encoder's outputs beside the classifiers' predictions (paper 4, section 4)."""
    table = Table(
        "representation",
        "Disentanglement error of the encoder's output (KL, nat) beside the predictions', mean over pairs",
        [
            Column("regime"),
            Column("KL (1,1)", 4),
            Column("KL box", 4),
            Column("KL grid", 4),
            Column("ξ(1,1)", 3),
            Column("ξ box", 3),
            Column("ξ grid", 3),
            Column("rank correlation at (1,1)", 2),
        ],
    )
    for regime in results.names("representation"):
        inner, outer = results.representation(regime), results.disentanglement(regime)
        assert inner is not None
        row: list[Value] = [regime]
        for grid in (inner, outer):
            row += (
                [
                    mean(measures.at(grid, 1.0, 1.0)),
                    mean(measures.box_mean(grid, 0.0, 1.0)),
                    mean(measures.grid_mean(grid)),
                ]
                if grid is not None
                else [None, None, None]
            )
        row.append(
            correlation.rank_correlation(measures.at(inner, 1.0, 1.0), measures.at(outer, 1.0, 1.0))
            if outer is not None
            else None
        )
        table.rows.append(row)
    if table.rows:
        table.notes.append("box: grid points in [0,1]²; grid: all of them.")
    return table


def tau_jp(results: Results) -> Table:
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
        ],
    )
    for regime in results.names("tau_jp"):
        record = results.tau_jp(regime)
        assert record is not None
        there = measures.of_pairs(record.value, results.pairs)
        back = measures.of_pairs(record.value.T, results.pairs)
        both = measures.of_pairs(measures.symmetric(record.value), results.pairs)
        for index in range(len(results.pairs)):
            numbers = [float(values[index]) for values in (there, back, both)]
            table.rows.append([regime, results.pair_name(index), *numbers])
        table.rows.append([regime, "mean", mean(there), mean(back), mean(both)])
        own = f"{regime}: mean over the task's own points {mean(np.diag(record.value)):.4f}"
        if record.control is not None:
            own += f", over the control's {mean(record.control):.4f}"
        table.notes.append(own + ".")
    return table


def predictor_table(results: Results) -> Table:
    estimates = ("value", "low", "high")
    kinds = ("Pearson", "Spearman")
    columns = [
        Column(kind if part == "value" else f"{kind} {part}", 2) for kind in kinds for part in estimates
    ]
    table = Table(
        "predictors",
        "What predicts interference: correlation with the normalised accuracy of a pair's sum",
        [Column("regime"), Column("α"), Column("predictor"), Column("pairs"), *columns],
    )
    for line in predictors.lines(results):
        numbers = [
            getattr(estimate, part) for estimate in (line.pearson, line.spearman) for part in estimates
        ]
        table.rows.append(
            [line.regime, line.outcome, predictors.TITLES[line.predictor], line.pairs, *numbers]
        )
    if table.rows:
        table.notes += [
            f"low, high: {100 * correlation.LEVEL:.0f} % percentile bootstrap over the pairs,"
            f" {correlation.RESAMPLES:,} resamples, seed {correlation.SEED}. Pairs share tasks, so the"
            " intervals are too narrow rather than too wide.",
            "ε = |cos|, C = the larger ‖τ‖², λ_max the larger of the two tasks'. NTK overlap: one minus the"
            " own share of the local energy. A dash: not measured, constant, or fewer than"
            f" {correlation.LEAST} pairs.",
        ]
        shared = [name for name in results.names("pair_addition") if _borrowed(results, name)]
        if shared:
            table.notes.append(
                f"{', '.join(shared)}: τJp or cosine of the same task vectors in the twin regime."
            )
    return table


def _borrowed(results: Results, regime: str) -> bool:
    """Whether a predictor comes from the regime with the same task vectors."""
    product = results.tau_jp(regime) is None and predictors.tau_jp(results, regime) is not None
    return product or (results.similarity(regime) is None and predictors.vectors(results, regime) is not None)


def continuation(results: Results) -> Table:
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
            Column("pair of largest τJp"),
            Column("its τJp", 4),
            Column("its normalized", 1, percent=True),
        ],
    )
    for regime in results.names("continuation"):
        record = results.continuation(regime)
        assert record is not None
        products = outcomes.pair_trace(record, results.pairs)
        worst = outcomes.worst_pair(record, results.pairs)
        for place, step in enumerate(record.step):
            table.rows.append(
                [
                    regime,
                    int(step),
                    mean(products[place]),
                    mean(record.pair_normalized[place]),
                    float(record.normalized[place]),
                    results.pair_name(worst),
                    float(products[place, worst]),
                    float(record.pair_normalized[place, worst]),
                ]
            )
    if table.rows:
        table.notes.append("The pair of largest τJp is that of the first step listed.")
    return table


def pairs(results: Results) -> Table:
    """One line a pair: everything that the file knows of it."""
    regimes = results.names("disentanglement")
    columns = [Column("pair")]
    values: list[list[Value]] = [[] for _ in results.pairs]
    for regime in regimes:
        grid = results.disentanglement(regime)
        assert grid is not None
        columns += [Column(f"{regime} ξ(1,1)", 3), Column(f"{regime} box", 3), Column(f"{regime} grid", 3)]
        numbers = (measures.at(grid, 1.0, 1.0), measures.box_mean(grid, 0.0, 1.0), measures.grid_mean(grid))
        for row, *cells in zip(values, *numbers, strict=True):
            row += [float(cell) for cell in cells]
    for regime in results.names("similarity"):
        record = results.similarity(regime)
        assert record is not None
        columns.append(Column(f"{regime} cosine", 3))
        for row, (first, second) in zip(values, results.pairs, strict=True):
            row.append(float(record.cosine[first, second]))
    for regime in results.names("tau_jp"):
        product = results.tau_jp(regime)
        assert product is not None
        columns.append(Column(f"{regime} τJp", 4))
        both = measures.of_pairs(measures.symmetric(product.value), results.pairs)
        for row, value in zip(values, both, strict=True):
            row.append(float(value))
    for regime in results.names("pair_addition"):
        columns += [Column(f"{regime} {name}", 1, percent=True) for name in predictors.OUTCOMES]
        for row, *cells in zip(values, *predictors.outcomes(results, regime).values(), strict=True):
            row += [float(cell) for cell in cells]
    rows = [[results.pair_name(index), *row] for index, row in enumerate(values)]
    return Table("pairs", "Every pair", columns, rows if len(columns) > 1 else [])
