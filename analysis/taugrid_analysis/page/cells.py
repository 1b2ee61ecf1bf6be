# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of a frame as cells of a table, each with the standard error that stands beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.table import Value


def cell(row: pd.Series, name: str) -> float:
    """Measured where the frame has a column NAME_error."""
    error = f"{name}_error"
    return Measured(float(row[name]), float(row[error])) if error in row.index else float(row[name])


def cells(row: pd.Series, *names: str) -> list[Value]:
    return [cell(row, name) for name in names]


SAMPLE = "±: one standard error of the evaluation sample, without training, seeds and the choice of α."


def largest_tried(of: dict[str, xr.Dataset]) -> list[str]:
    """A note of those, by name, whose validation chose the largest of several α; none where none did."""
    names = []
    for name, data in of.items():
        alpha, chosen = data["alpha"].to_numpy(), np.atleast_1d(data["coefficient"].to_numpy()).ravel()
        chosen = chosen[np.isfinite(chosen)]
        at_end = int((chosen >= alpha.max()).sum()) if len(alpha) > 1 else 0
        if at_end:
            names.append(name if len(chosen) == 1 else f"{name} ({at_end} of {len(chosen)})")
    return [f"The largest α that was tried was chosen, of {', '.join(names)}."] if names else []
