# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of task addition."""

from __future__ import annotations

import pandas as pd

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.addition import figures
from taugrid_analysis.quantities.training.figures import MOST
from taugrid_analysis.run.opened import Run


def sweep(run: Run, experiment: str) -> pd.DataFrame:
    """Every point of the curves over α."""
    frame = run.sweeps[run.sweeps["experiment"] == experiment]
    return frame.dropna(axis="columns", how="all")


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "addition",
            "Task addition",
            "addition",
            "θ0 + α Σ τ over all tasks: mean test accuracy by α, and the α that validation chose, with one"
            f" standard error of the evaluation sample; with up to {MOST} regimes thin: each task,"
            " dotted: mean validation accuracy.",
            [figures.addition(run)],
            {"addition.csv": lambda: sweep(run, "addition")},
        ),
    ]
