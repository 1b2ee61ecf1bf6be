# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of costs."""

from __future__ import annotations

import pandas as pd

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.cost import figures
from taugrid_analysis.run.opened import Run


def cost(run: Run) -> pd.DataFrame:
    known = {name: data for name in run.results.names("cost") if (data := run.data("cost", name)) is not None}
    rows = {name: {str(key): float(value) for key, value in data.items()} for name, data in known.items()}
    return pd.DataFrame(rows).T.rename_axis("regime").reset_index()


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "cost",
            "Cost of a training step",
            "cost",
            "By regime; more in the table of costs. Peak memory: most bytes of tensors alive at once; four"
            " bytes a parameter: twice for a linearised model, which holds θ0 too.",
            [figures.cost(run)],
            {"cost.csv": lambda: cost(run)},
        ),
    ]
