# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The tables of a run, with the papers' numbers beside them where the run measured the same model."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import comparison, measures, published
from taugrid_analysis.measures import mean
from taugrid_analysis.results import Results
from taugrid_analysis.text_table import Column, Table, Value


def all_tables(results: Results, by_pair: bool = False) -> list[Table]:
    """Those whose groups are in the file, in the order in which one reads them."""
    identity = published.identify(results)
    found = [
        addition(results, identity),
        single_task(results),
        similarity(results),
        disentanglement(results),
        smoothness(results),
        localisation(results),
    ]
    if by_pair:
        found.append(pairs(results))
    tables = [table for table in found if table.rows]
    return tables + (comparison.orientation(results, identity) if identity.key is None else [])


def addition(results: Results, identity: published.Identity) -> Table:
    table = Table(
        "addition",
        f"Task addition: θ0 + α Σ τ over {len(results.tasks)} tasks, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("alpha"),
            Column("absolute", 1, percent=True),
            Column("normalized", 1, percent=True),
            Column("one_shot_absolute", 1, percent=True),
            Column("one_shot_normalized", 1, percent=True),
        ],
    )
    regimes = results.names("addition")
    if not regimes:
        return table
    start = results.single_task(results.start)
    absolute = mean(start.accuracy) if start is not None else None
    table.rows.append([results.start, None, absolute, None, None, None])
    for regime in regimes:
        record = results.addition(regime)
        assert record is not None
        table.rows.append(
            [
                regime,
                record.chosen_alpha,
                record.absolute,
                record.normalized,
                record.one_shot_absolute,
                record.one_shot_normalized,
            ]
        )
    table.notes.append("alpha: one for all tasks, chosen on the validation split; one shot: alpha = 1.")
    if identity.key is not None:
        comparison.add_published(table, results, identity)
    return table


def single_task(results: Results) -> Table:
    regimes = [name for name in (results.start, *results.regimes) if results.single_task(name) is not None]
    table = Table(
        "single_task",
        "Single-task accuracy, test split",
        [Column("task"), Column("classes"), *[Column(name, 1, percent=True) for name in regimes]],
    )
    if not regimes:
        return table
    records = [results.single_task(name) for name in regimes]
    for index, task in enumerate(results.tasks):
        values: list[Value] = [float(record.accuracy[index]) for record in records if record is not None]
        table.rows.append([task, int(results.classes[index]), *values])
    means: list[Value] = [mean(record.accuracy) for record in records if record is not None]
    table.rows.append(["mean", None, *means])
    samples = {record.samples for record in records if record is not None and record.samples}
    if samples:
        table.notes.append(f"{_range(samples)} test points a task.")
    return table


def _range(numbers: set[int]) -> str:
    return f"{min(numbers):,}" if len(numbers) == 1 else f"{min(numbers):,} to {max(numbers):,}"


def similarity(results: Results) -> Table:
    table = Table(
        "similarity",
        "Task vectors",
        [
            Column("regime"),
            Column("task"),
            Column("norm", 3),
            Column("norm / norm of θ0", 4),
            Column("largest |cosine|", 3),
            Column("with"),
        ],
    )
    for regime in results.names("similarity"):
        record = results.similarity(regime)
        assert record is not None
        others = np.abs(record.cosine.astype(float))
        np.fill_diagonal(others, -1.0)
        for index, task in enumerate(results.tasks):
            nearest = int(others[index].argmax())
            table.rows.append(
                [
                    regime,
                    task,
                    float(record.norm[index]),
                    float(record.norm_ratio[index]),
                    float(others[index, nearest]),
                    results.tasks[nearest],
                ]
            )
    return table


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
                pair_name(results, worst) if known else "",
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


def pair_name(results: Results, pair: int) -> str:
    first, second = results.pairs[pair]
    return f"{results.tasks[first]} + {results.tasks[second]}"


def smoothness(results: Results) -> Table:
    table = Table(
        "smoothness",
        "Largest Hessian eigenvalue in absolute value, training loss at θ0 + τ",
        [
            Column("regime"),
            Column("task"),
            Column("lambda_max", 2),
            Column("residual", 1, scientific=True),
            Column("products"),
        ],
    )
    for regime in results.names("smoothness"):
        record = results.smoothness(regime)
        assert record is not None
        for index, task in enumerate(results.tasks):
            table.rows.append(
                [
                    regime,
                    task,
                    float(record.lambda_max[index]),
                    float(record.residual[index]),
                    int(record.hvp_count[index]),
                ]
            )
        table.notes.append(f"{regime}: {record.method}; residual ‖Hv−λv‖/|λ|.")
    return table


def localisation(results: Results) -> Table:
    table = Table(
        "ntk",
        "NTK: share of the local energy on the trained task's own points (0.5 would be no localisation)",
        [
            Column("θ0"),
            Column("task"),
            Column("mean over controls", 3),
            Column("least", 3),
            Column("control"),
        ],
    )
    for start in results.names("ntk"):
        record = results.ntk(start)
        assert record is not None
        share = measures.own_share(record.local_energy)
        for index, task in enumerate(results.tasks):
            if not np.isfinite(share[index]).any():
                continue
            least = int(np.nanargmin(share[index]))
            table.rows.append(
                [start, task, mean(share[index]), float(share[index, least]), results.tasks[least]]
            )
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
    rows = [[pair_name(results, index), *row] for index, row in enumerate(values)]
    return Table("pairs", "Every pair", columns, rows if len(columns) > 1 else [])
