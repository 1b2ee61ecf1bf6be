# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of loss gaps and their bounds."""

from __future__ import annotations

import pandas as pd

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.smoothness import figures
from taugrid_analysis.quantities.smoothness.bounds import all_bounds
from taugrid_analysis.run.opened import Run


def bound(run: Run) -> pd.DataFrame:
    known = all_bounds(run)
    return pd.concat(known, names=["regime"]).reset_index() if known else pd.DataFrame()


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "smoothness",
            "Loss gap and its bound",
            "smoothness",
            "A point is one task of one pair: how much its test loss rises at θ0 + ½(τ₁+τ₂), against the"
            " bound L C (1+ε) with the curvature L of its training loss, C the larger ‖τ‖² and ε the cosine.",
            [figures.smoothness(run)],
            {"bound.csv": lambda: bound(run)},
        ),
    ]
