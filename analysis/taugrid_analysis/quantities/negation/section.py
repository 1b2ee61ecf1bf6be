# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of task negation."""

from __future__ import annotations

from taugrid_analysis.page.section import Part, columns
from taugrid_analysis.quantities.negation import figures
from taugrid_analysis.run.opened import Run

NEGATED = ("negated_alpha", "negated", "negated_control")


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "negation",
            "Task negation",
            "negation",
            "θ0 − α τ of each task: bars are means over the tasks, dots are tasks, lines one standard error"
            " of the evaluation sample. α: least target accuracy on validation that keeps the control; tasks"
            " where no α does are left out.",
            [figures.negation(run)],
            {
                "negation.csv": lambda: columns(
                    run.tasks,
                    *(f"{prefix}{name}" for prefix in ("", "wide_") for name in NEGATED),
                ),
            },
        ),
    ]
