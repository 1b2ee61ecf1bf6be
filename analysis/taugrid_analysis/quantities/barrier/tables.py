# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The loss barrier between models, and what explains it."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.papers import published
from taugrid_analysis.quantities.smoothness import magnitude
from taugrid_analysis.run.opened import Run


def barrier(run: Run) -> Table:
    """R² of the loss barrier on what may cause it, with the range over leaving out any one task."""
    table = Table(
        "barrier",
        "Loss barrier of pairs, R² on its causes (cross-task linearity paper, theorem 5.1 and appendix C.2)",
        [
            Column("regime"),
            Column("barrier"),
            Column("regressed on"),
            Column("published"),
            Column("ours", 3),
            Column("least", 3),
            Column("most", 3),
            Column("slope", 3, significant=True),
        ],
    )
    printed = {name: f"{value:.3f}" for name, value in published.explained().items()}
    for regime in run.results.names("barrier"):
        data = run.data("barrier", regime)
        assert data is not None
        half = int(np.argmin(np.abs(data["alpha"].to_numpy() - 0.5)))
        delta, weight = data["delta"].to_numpy()[:, half], float(data["alpha"][half])
        factor = weight * (1 - weight) / 2
        curved = {
            "½α(1−α) vᵀHv, H at θ0": factor * data["curvature"].to_numpy(),
            "½α(1−α) vᵀHv, H in the middle": factor * data["middle_curvature"].to_numpy(),
        }
        for name, values in curved.items():
            table.rows.append([regime, "signed", name, None, *_explained(values, delta, run.results.pairs)])
        distance, top = data["distance"].to_numpy(), run.data("smoothness", regime)
        causes = {"‖v‖²": distance**2}
        if top is not None:
            largest = magnitude(top)[run.results.pairs].mean(axis=1)
            causes |= {"λ_max": largest, "½α(1−α) λ_max ‖v‖²": factor * largest * distance**2}
        for name, values in causes.items():
            cells = _explained(values, np.abs(delta), run.results.pairs)
            table.rows.append([regime, "absolute", name, printed[name], *cells])
    if table.rows:
        table.notes.append(
            "δ = αL(θ₁) + (1−α)L(θ₂) − L(αθ₁ + (1−α)θ₂), L: mean of the tasks' training losses; v = θ₁ − θ₂."
            " λ_max: mean of the two tasks' |λ_max| at their θ*. Least and most: leaving out any one task."
            " Published values are of one task's models from several θ0, ours of pairs of tasks from one θ0."
        )
    else:
        table.rows = [
            [None, "absolute", name, value, None, None, None, None] for name, value in printed.items()
        ]
        table.notes.append("This run did not measure /barrier. All else in the paper is figures.")
    return table


def _explained(x: Array, y: Array, pairs: Array) -> list[Value]:
    """R² over pairs, its range when any one task is left out, and the slope."""

    def of(kept: Array) -> float:
        if kept.sum() < 3 or x[kept].std() == 0 or y[kept].std() == 0:
            return float("nan")
        return float(np.corrcoef(x[kept], y[kept])[0, 1] ** 2)

    every = np.ones(len(x), dtype=bool)
    without = [of(~(pairs == task).any(axis=1)) for task in np.unique(pairs)]
    known = [value for value in without if np.isfinite(value)]
    slope = float(np.polyfit(x, y, 1)[0]) if len(x) > 2 and x.std() > 0 else float("nan")
    ends = [min(known), max(known)] if known else [float("nan")] * 2
    return [of(every), *ends, slope]


def measured(run: Run) -> Table:
    """The table of a run that measured /barrier; else one without rows."""
    table = barrier(run)
    return table if run.results.names("barrier") else Table(table.name, table.title, table.columns)


TABLES = {"barrier": measured}
