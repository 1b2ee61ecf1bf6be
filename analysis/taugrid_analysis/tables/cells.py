# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of a frame as cells of a table, each with the standard error that stands beside it."""

from __future__ import annotations

import pandas as pd

from taugrid_analysis.text_table import Measured, Value


def cell(row: pd.Series, name: str) -> float:
    """Measured where the frame has a column NAME_error."""
    error = f"{name}_error"
    return Measured(float(row[name]), float(row[error])) if error in row.index else float(row[name])


def cells(row: pd.Series, *names: str) -> list[Value]:
    return [cell(row, name) for name in names]


SAMPLE = "±: one standard error of the evaluation sample, without training, seeds and the choice of α."
