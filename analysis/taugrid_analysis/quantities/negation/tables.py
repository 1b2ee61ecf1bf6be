# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One task vector subtracted: what its task and the control are left with, and how sure that is."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.numbers.sampling import NORMAL
from taugrid_analysis.page.cells import SAMPLE, cell, cells
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.quantities.negation import forgetting
from taugrid_analysis.quantities.negation import kept as negation_kept
from taugrid_analysis.quantities.negation.kept import Kept
from taugrid_analysis.run.opened import Run

SEARCHED = (("[0,1]", ""), ("[0,3]", "wide_"), ("α = 1", "one_shot_"))


def negation(run: Run) -> Table:
    """Target and control accuracy of θ0 − α τ, mean over tasks (paper 1, table 2; paper 3, table 2)."""
    tasks = run.results.tasks
    table = Table(
        "negation",
        f"Task negation: θ0 − α τ of each of {len(tasks)} tasks, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("searched"),
            Column("mean alpha"),
            Column("target", 1, percent=True),
            Column("control", 1, percent=True),
            Column("control kept"),
        ],
    )
    regimes = run.results.names("negation")
    if not regimes:
        return table
    start = forgetting.control_accuracy(run.results)
    before = cell(run.summary.loc[run.results.start], "single")
    table.rows.append([run.results.start, "", None, before, start, ""])
    for regime in regimes:
        row, data = run.summary.loc[regime], run.data("negation", regime)
        assert data is not None
        for searched, prefix in SEARCHED:
            if not np.isfinite(row[f"{prefix}kept"]):
                continue
            kept = f"{int(row[f'{prefix}kept'])} of {len(tasks)}"
            numbers = cells(row, f"{prefix}negated", f"{prefix}negated_control")
            table.rows.append([regime, searched, float(row[f"{prefix}negated_alpha"]), *numbers, kept])
        for searched, prefix in (("[0,1]", ""), ("[0,3]", "wide_")):
            if f"{prefix}chosen_alpha" not in data:
                continue
            lost = data["task"].to_numpy()[~np.isfinite(data[f"{prefix}chosen_alpha"].to_numpy())]
            if len(lost):
                table.notes.append(f"{regime}: no α in {searched} keeps the control for {', '.join(lost)}.")
    first = run.data("negation", regimes[0])
    assert first is not None
    share, named = first.attrs["control_threshold"], first.attrs["control"]
    table.notes += [
        f"Control task {named}. α: least target accuracy on validation with at least {100 * share:g} % of"
        " θ0's control accuracy; a task where none qualifies is left out, and where none of all tasks does, a"
        " dash is printed. α = 1 is not chosen: kept is counted on test.",
        SAMPLE + " All tasks share the control's points, so a mean does not lessen the control's.",
    ]
    return table


def intervals(run: Run) -> Table:
    """95 % intervals of what negation leaves: how finely the evaluation sample resolves the floor."""
    table = Table(
        "negation_intervals",
        "Task negation: 95 % intervals of the evaluation sample, mean over tasks",
        [
            Column("regime"),
            Column("searched"),
            Column("target %"),
            Column("control %"),
            Column("of θ0's control %"),
            Column("tasks above the floor"),
            Column("unsure"),
            Column("below"),
        ],
    )
    for regime in run.results.names("negation"):
        row = run.summary.loc[regime]
        for searched, prefix in SEARCHED:
            kept = negation_kept.kept(run.results, regime, prefix)
            if kept is None:
                continue
            table.rows.append(
                [
                    regime,
                    searched,
                    _interval(Measured(row[f"{prefix}negated"], row[f"{prefix}negated_error"])),
                    _interval(kept.accuracy),
                    _interval(kept.share),
                    *_counts(kept),
                ]
            )
            points, paired = kept.points, kept.paired
    if table.rows:
        data = run.data("negation", str(table.rows[0][0]))
        assert data is not None
        floor = 100 * float(data.attrs["control_threshold"])
        how = "paired, on the same points, from /correct" if paired else "as if θ0's points were others"
        table.notes += [
            f"{NORMAL:.2f} standard errors. Target: binomial. Control and its share of θ0's: {how};"
            f" {points:,} test points.",
            f"Floor: {floor:g} % of θ0's control, to which validation points were held. unsure: a task's own"
            " interval, on test points, holds the floor.",
        ]
    return table


def _interval(value: Measured) -> Value:
    if not np.isfinite(value) or not np.isfinite(value.error):
        return None
    low, high = (100 * (float(value) + sign * NORMAL * value.error) for sign in (-1, 1))
    return f"{100 * float(value):.1f} ({low:.1f} to {high:.1f})"


def _counts(kept: Kept) -> list[Value]:
    return [kept.above, kept.unsure, kept.below]


TABLES = {"negation": negation, "negation_intervals": intervals}
