# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Two task vectors added."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.cells import SAMPLE, cell
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.quantities.addition.tables import MEANS
from taugrid_analysis.run.opened import Run


def pair_addition(run: Run) -> Table:
    table = Table(
        "pair_addition",
        f"Addition of two task vectors, test accuracy, mean over {len(run.results.pairs)} pairs",
        [
            Column("regime"),
            Column("mean alpha"),
            *[Column(name, 1, percent=True) for name in MEANS],
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
                *[Measured(float(frame[name].mean()), _at_most(run, regime, name)) for name in MEANS],
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


TABLES = {"pair_addition": pair_addition}
