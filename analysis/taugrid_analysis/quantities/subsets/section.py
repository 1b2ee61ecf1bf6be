# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of sums of random subsets of the tasks."""

from __future__ import annotations

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.subsets import figures
from taugrid_analysis.quantities.subsets.by_size import by_size
from taugrid_analysis.run.opened import Run


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "subsets",
            "Accuracy over the number of tasks added",
            "subsets",
            "θ0 + α τ, τ made of the vectors of a random subset of the tasks, on the subset's tasks: means"
            " over subsets, lines one standard error over them. α: by each subset's validation points."
            " Dotted: each task's own model, over the same subsets; dashed: θ0.",
            [figures.by_number(run)],
            {"subsets.csv": lambda: by_size(run)},
        ),
    ]
