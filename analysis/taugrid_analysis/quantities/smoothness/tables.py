# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The loss's curvature at the fine-tuned models, and loss gaps beside the bounds that follow from it."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from taugrid_analysis.numbers.correlation import rank_correlation
from taugrid_analysis.numbers.means import mean
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.quantities.smoothness.bounds import bounds, negation, sums, transfer
from taugrid_analysis.run.opened import Run


def smoothness(run: Run) -> Table:
    table = Table(
        "smoothness",
        "The Hessian's eigenvalue of largest magnitude, which may be negative, training loss at θ0 + τ",
        [
            Column("regime"),
            Column("task"),
            Column("lambda_max", 2),
            Column("residual", 1, scientific=True),
            Column("products"),
        ],
    )
    for regime in run.results.names("smoothness"):
        data = run.data("smoothness", regime)
        assert data is not None
        for task, row in run.tasks.loc[regime].iterrows():
            numbers: list[Value] = [
                float(row["lambda_max"]),
                float(row["lambda_residual"]),
                int(row["products"]),
            ]
            table.rows.append([regime, str(task), *numbers])
        table.notes.append(f"{regime}: {data.attrs.get('method', 'not stated')}; residual ‖Hv−λv‖/|λ|.")
    return table


def bound_table(run: Run) -> Table:
    table = Table(
        "bound",
        "Loss gap at θ0 + ½(τ₁ + τ₂) beside its bound L C (1+ε), mean over a task's pairs",
        [*_BOUND, Column("ε", 3)],
    )
    _add_bounds(table, run, bounds, "")
    _add_bounds(table, run, sums, ", all T at 1/T")
    if table.rows:
        table.notes += [
            "C: the larger ‖τ‖² of both; ε: |cos|. all T at 1/T, where [similarity] sum_alpha holds 1/T: the"
            " gap at θ0 + Σ τ/T of all T tasks, one a task, with the largest ‖τ‖² and |cos| of all.",
            _SAID_OF_BOUNDS.format("theorem 4.4", "a task's pairs"),
        ]
    return table


def other_bounds_table(run: Run) -> Table:
    """Shows the bounds of negation, and of one vector's use on another task."""
    table = Table(
        "other_bounds",
        "Loss gaps of single vectors on other tasks beside their bounds, mean over a task's gaps",
        [*_BOUND, Column("ε or β", 3)],
    )
    _add_bounds(table, run, negation, ", θ0 − τ of another")
    _add_bounds(table, run, transfer, ", θ0 + τ of the nearest")
    if table.rows:
        table.notes += [
            "θ0 − τ of another: L_j(θ0 − τ_i) − L_j(θ0) and L C (3/2+ε), ε = |cos|. θ0 + τ of the nearest:"
            " L_j(θ0 + τ_i) − L_j(θ0 + τ_j) of the largest ⟨τ_i, τ_j⟩ and L C (1−β), β = ⟨τ_i, τ_j⟩/C,"
            " which the theorem assumes above 0. C: the larger ‖τ‖² of both.",
            _SAID_OF_BOUNDS.format("each theorem", "a task's gaps"),
        ]
    return table


_BOUND = (
    Column("regime"),
    Column("task"),
    Column("gap, nat", 3),
    Column("bound", 2),
    Column("tightness", 4),
    Column("largest tightness", 4),
    Column("bound holds"),
    Column("L", 2),
    Column("C", 2),
)
_SAID_OF_BOUNDS = (
    "Without ±: losses of single points are not stored. tightness: gap/bound, median over {1}; 1 is a tight"
    " bound, near 0 one that says little, above 1 one that fails. Gap: test loss; L: curvature of the"
    " training loss at the task's own model ({0} of the bases paper takes both of one loss, and θ_i for a"
    " minimum of it)."
)


def _add_bounds(table: Table, run: Run, of: Callable[[Run, str], pd.DataFrame | None], what: str) -> None:
    for regime in run.results.names("smoothness"):
        frame = of(run, regime)
        if frame is None:
            continue
        groups = [*frame.groupby("task", sort=False), ("all", frame)]
        for task, part in groups:
            holds = int((part["tightness"] <= 1).sum())
            constants = [mean(part[name]) for name in ("curvature", "size", "similarity")]
            table.rows.append(
                [
                    regime + what,
                    str(task),
                    mean(part["gap"]),
                    mean(part["bound"]),
                    float(part["tightness"].median()),
                    float(part["tightness"].max()),
                    f"{holds} of {len(part)}",
                    *constants,
                ]
            )
        ranks = rank_correlation(frame["bound"].to_numpy(), frame["gap"].to_numpy())
        table.notes.append(
            f"{regime}{what}: rank correlation of bound and gap {ranks:+.2f} over {len(frame)} gaps."
        )


TABLES = {"smoothness": smoothness, "bound": bound_table, "other_bounds": other_bounds_table}
