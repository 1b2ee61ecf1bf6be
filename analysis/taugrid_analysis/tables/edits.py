# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Edited models: all task vectors added, two of them, one of them subtracted."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import comparison, differences, outcomes, published
from taugrid_analysis.run import Run
from taugrid_analysis.tables.cells import SAMPLE, cell, cells
from taugrid_analysis.text_table import Column, Measured, Table, Value

SUMS = ("absolute", "normalized", "one_shot_absolute", "one_shot_normalized")


def addition(run: Run, identity: published.Identity) -> Table:
    table = Table(
        "addition",
        f"Task addition: θ0 + α Σ τ over {len(run.results.tasks)} tasks, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("alpha"),
            *[Column(name, 1, percent=True) for name in SUMS],
        ],
    )
    regimes = run.results.names("addition")
    if not regimes:
        return table
    table.rows.append(
        [run.results.start, None, cell(run.summary.loc[run.results.start], "single"), None, None, None]
    )
    for regime in regimes:
        row = run.summary.loc[regime]
        table.rows.append([regime, float(row["chosen_alpha"]), *cells(row, *SUMS)])
    table.notes += ["alpha: one for all tasks, chosen on the validation split; one shot: alpha = 1.", SAMPLE]
    if identity.key is not None:
        comparison.add_published(table, run, identity)
    return table


def sensitivity(run: Run) -> Table:
    table = Table(
        "sensitivity",
        "Sensitivity to α of the sum of all task vectors, mean test accuracy",
        [
            Column("regime"),
            Column("within 1 point of the best", 0, percent=True),
            Column("best on test", 1, percent=True),
            Column("at"),
            Column("tuned", 1, percent=True),
            Column("one shot", 1, percent=True),
            Column("one shot − tuned", 1, percent=True),
        ],
    )
    for regime in run.results.names("addition"):
        data, row = run.data("addition", regime), run.summary.loc[regime]
        assert data is not None
        alpha, curve = data["alpha"].to_numpy(), data["test_accuracy"].mean("task").to_numpy()
        best = int(curve.argmax())
        of_best = outcomes.added(run.results, regime, float(alpha[best]))
        assert of_best is not None
        change = differences.added(run.results, (regime, 1.0), (regime, None))
        table.rows.append(
            [
                regime,
                outcomes.tolerant_share(alpha, curve),
                outcomes.measured_mean(of_best.accuracy, of_best.accuracy_error),
                float(alpha[best]),
                cell(row, "absolute"),
                cell(row, "one_shot_absolute"),
                Measured(change.mean, change.mean_error),
            ]
        )
    if table.rows:
        table.notes += [
            "Share of the searched α range, accuracy linear between coefficients.",
            "The best α is picked on test points: it describes the curve, and is no result of a choice.",
            SAMPLE,
        ]
    return table


def pair_addition(run: Run) -> Table:
    table = Table(
        "pair_addition",
        f"Addition of two task vectors, test accuracy, mean over {len(run.results.pairs)} pairs",
        [
            Column("regime"),
            Column("mean alpha"),
            *[Column(name, 1, percent=True) for name in SUMS],
            Column("worst normalized", 1, percent=True),
            Column("pair"),
        ],
    )
    for regime in run.results.names("pair_addition"):
        frame = run.pairs.loc[regime]
        known = frame["normalized"].notna().any()
        worst = frame.loc[frame["normalized"].idxmin()] if known else None
        table.rows.append(
            [
                regime,
                float(frame["chosen_alpha"].mean()),
                *[Measured(float(frame[name].mean()), _at_most(run, regime, name)) for name in SUMS],
                cell(worst, "normalized") if worst is not None else None,
                str(worst.name) if worst is not None else "",
            ]
        )
    if table.rows:
        table.notes += [
            "alpha: one for both, chosen on validation for each pair; one shot: alpha = 1.",
            SAMPLE + " Of means over pairs it is at most that: all pairs of a task have the same points.",
        ]
    return table


def _at_most(run: Run, regime: str, name: str) -> float:
    """The mean over pairs moves with all tasks' points; a pair's error is shared out to its two tasks."""
    errors = run.pairs.loc[regime][f"{name}_error"].to_numpy(dtype=float)
    chosen = run.results.pairs
    of_task = np.zeros(len(run.results.tasks))
    np.add.at(of_task, chosen, (errors / np.sqrt(2))[:, None])
    return float(np.sqrt((of_task**2).sum()) / len(chosen))


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
