# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of merged models."""

from __future__ import annotations

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.merging import figures, models
from taugrid_analysis.run.opened import Run


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "merging",
            "Accuracy over the cost of a merge",
            "merging",
            "Merged models of all tasks at the α that validation chose: normalised accuracy against what it"
            " takes to make τ, by method; lines: one standard error of the evaluation sample. Open circles:"
            " methods that take data as well; inputs: that go through a model, both ways. Seconds are this"
            " machine's, with data of all units.",
            [figures.accuracy_over_cost(run)],
            {"merging.csv": lambda: models.of_run(run)},
        ),
    ]
