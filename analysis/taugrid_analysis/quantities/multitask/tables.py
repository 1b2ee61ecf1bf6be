# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One model trained on all tasks beside sums of task vectors."""

from __future__ import annotations

from taugrid_analysis.page.cells import SAMPLE, cell, cells
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.run.opened import Run


def multitask(run: Run) -> Table:
    """One model trained on all tasks beside the sums (paper 3, appendix E)."""
    joint = run.results.names("multitask")
    table = Table(
        "multitask",
        "One model trained on all tasks beside sums of task vectors, test accuracy, mean over tasks",
        [
            Column("model"),
            Column("absolute", 1, percent=True),
            Column("normalized", 1, percent=True),
            Column("worst task", 1, percent=True),
            Column("which"),
        ],
    )
    for regime in joint:
        table.rows.append(
            [
                regime,
                *cells(run.summary.loc[regime], "absolute", "normalized"),
                *_worst(run, regime, "accuracy"),
            ]
        )
    for regime in run.results.names("addition") if joint else []:
        both = cells(run.summary.loc[regime], "absolute", "normalized")
        table.rows.append([f"sum, {regime}", *both, *_worst(run, regime, "added")])
    if table.rows:
        table.notes += [
            "normalized: by the single-task models, non-linear for multitask, linear for multitask_linear,"
            " its own regime's for a sum.",
            SAMPLE,
        ]
    return table


def _worst(run: Run, regime: str, column: str) -> list[Value]:
    frame = run.tasks.loc[regime]
    if not frame[column].notna().any():
        return [None, ""]
    worst = frame.loc[frame[column].idxmin()]
    return [cell(worst, column), str(worst.name)]


TABLES = {"multitask": multitask}
