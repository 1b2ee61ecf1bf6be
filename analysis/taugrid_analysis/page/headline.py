# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The six numbers that people look for first, each with its error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.cells import cell
from taugrid_analysis.page.table import Column
from taugrid_analysis.quantities.negation.columns import part_of_tasks
from taugrid_analysis.run.opened import Run

SHARE, ERROR = Column("", 1, percent=True), Column("", 3)


class Headline(NamedTuple):
    """The numbers of one regime as (title, text), and a line that says what they are."""

    numbers: list[tuple[str, str]]
    note: str


def headline(run: Run) -> Headline | None:
    """The numbers of standard fine-tuning, else of the first regime; None where none was measured."""
    if not run.regimes:
        return None
    regime = "standard" if "standard" in run.regimes else run.regimes[0]
    start, row = run.summary.loc[run.results.start], run.summary.loc[regime]
    alpha = f" at α = {row['chosen_alpha']:g}" if np.isfinite(row["chosen_alpha"]) else ""
    part = part_of_tasks(row["kept"], len(run.results.tasks))
    numbers = [
        ("θ0", SHARE, cell(start, "single")),
        ("each task's own model", SHARE, cell(row, "single")),
        (f"one model with all task vectors{alpha}", SHARE, cell(row, "absolute")),
        ("… over the own models", SHARE, cell(row, "normalized")),
        ("ξ(1,1) of a pair", ERROR, cell(row, "xi_one")),
        (f"its task after a vector is subtracted{f', {part}' if part else ''}", SHARE, cell(row, "negated")),
    ]
    if not any(np.isfinite(value) for _, _, value in numbers):
        return None
    shown = [(title, _text(column, value)) for title, column, value in numbers]
    return Headline(
        shown,
        f"These are of the regime {regime}: test accuracies in percent, means over {len(run.results.tasks)}"
        " tasks, and the disentanglement error ξ, mean over pairs. ± is one standard error of the evaluation"
        " sample.",
    )


def _text(column: Column, value: float) -> str:
    known = isinstance(value, Measured) and np.isfinite(value.error)
    return column.show(value if known else float(value))
