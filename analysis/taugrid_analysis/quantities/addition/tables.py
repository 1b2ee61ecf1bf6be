# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""All task vectors added: accuracy, and how much it depends on α."""

from __future__ import annotations

from taugrid_analysis.numbers import measured
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.cells import SAMPLE, cell, cells
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.quantities.addition import sums
from taugrid_analysis.run import differences
from taugrid_analysis.run.group import SUMS
from taugrid_analysis.run.opened import Run

MEANS = SUMS[1:]  # of the sum's accuracies


def addition(run: Run) -> Table:
    table = Table(
        "addition",
        f"Task addition: θ0 + α Σ τ over {len(run.results.tasks)} tasks, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("alpha"),
            *[Column(name, 1, percent=True) for name in MEANS],
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
        table.rows.append([regime, float(row["chosen_alpha"]), *cells(row, *MEANS)])
    table.notes += ["alpha: one for all tasks, chosen on the validation split; one shot: alpha = 1.", SAMPLE]
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
        of_best = sums.added(run.results, regime, float(alpha[best]))
        assert of_best is not None
        change = differences.added(run.results, (regime, 1.0), (regime, None))
        table.rows.append(
            [
                regime,
                sums.tolerant_share(alpha, curve),
                measured.measured_mean(of_best.accuracy, of_best.accuracy_error),
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


TABLES = {"addition": addition, "sensitivity": sensitivity}
