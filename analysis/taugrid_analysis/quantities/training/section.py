# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of training."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.training import figures
from taugrid_analysis.quantities.training import figures as training_figures
from taugrid_analysis.quantities.training.figures import MOST
from taugrid_analysis.run.opened import Run


def training(run: Run) -> pd.DataFrame:
    """Moving averages, mean over tasks, at the steps that are drawn."""
    parts = []
    for name in run.results.names("training"):
        place, smooth = training_figures.smoothed(run, name)
        parts.append(pd.DataFrame({"regime": name, "step": place, "loss": np.nanmean(smooth, axis=0)}))
    return pd.concat(parts) if parts else pd.DataFrame()


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "training",
            "Training loss",
            "training",
            f"Moving average over a thirtieth of the steps, mean over tasks; with up to {MOST} regimes"
            " thin: each task.",
            [figures.training(run)],
            {"training.csv": lambda: training(run)},
        ),
    ]
