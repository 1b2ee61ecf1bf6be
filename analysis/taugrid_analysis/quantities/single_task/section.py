# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of single-task accuracies."""

from __future__ import annotations

from taugrid_analysis.page.section import Part, columns
from taugrid_analysis.quantities.single_task import figures
from taugrid_analysis.run.opened import Run


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "accuracy",
            "Single-task accuracy",
            "single_task",
            "Test accuracy of θ0 and of each fine-tuned model on its own task; lines: one standard error of"
            " the evaluation sample.",
            [figures.accuracies(run)],
            {"accuracy.csv": lambda: columns(run.tasks, "points", "accuracy", "validation_accuracy", "loss")},
        ),
    ]
