# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Sums of random subsets of the tasks, by their size."""

from __future__ import annotations

from taugrid_analysis.page.cells import cells
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.quantities.subsets.by_size import by_size, merge_of
from taugrid_analysis.run.opened import Run


def subsets(run: Run) -> Table:
    table = Table(
        "subsets",
        f"Random subsets of {len(run.results.tasks)} tasks added, test accuracy, mean over a subset's tasks",
        [
            Column("regime"),
            Column("tasks"),
            Column("subsets"),
            Column("mean alpha"),
            Column("θ0", 1, percent=True),
            Column("alone", 1, percent=True),
            Column("absolute", 1, percent=True),
            Column("normalized", 1, percent=True),
        ],
    )
    for _, row in by_size(run).iterrows():
        drawn = f"{row['subsets']}, all" if row["every"] else f"{row['subsets']}"
        table.rows.append(
            [
                row["regime"],
                int(row["tasks"]),
                drawn,
                *cells(row, "coefficient", "start", "single", "absolute", "normalized"),
            ]
        )
    if table.rows:
        table.notes.append(
            f"Vectors merged by {merge_of(run)}; α by each subset's validation points. ±: one standard error"
            " over subsets, which share tasks, points and one seed; large subsets are nearly the same tasks,"
            " so that it says little of other tasks."
        )
    return table


TABLES = {"subsets": subsets}
