# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""τJp of every ordered pair."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.means import mean
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.run.opened import Run


def tau_jp(run: Run) -> Table:
    """Every ordered pair and the mean of both directions (paper 3, equation 9)."""
    table = Table(
        "tau_jp",
        "τJp: mean ‖J(x)τ‖² over the other task's points, J of the encoder's output at θ0",
        [
            Column("regime"),
            Column("pair A + B"),
            Column("τ of A, x of B", 4),
            Column("τ of B, x of A", 4),
            Column("τJp", 4),
            Column("on validation", 4),
        ],
    )
    columns = ["tau_jp_12", "tau_jp_21", "tau_jp", "tau_jp_validation"]
    for regime in run.results.names("tau_jp"):
        data = run.data("tau_jp", regime)
        assert data is not None
        frame = run.pairs if run.pairs.empty else run.pairs.loc[regime]
        for pair, row in frame.iterrows():
            table.rows.append([regime, str(pair), *[float(row[name]) for name in columns]])
        table.rows.append([regime, "mean", *[mean(frame[name]) for name in columns]])
        text = f"{regime}: mean over the task's own points {np.diag(data['value'].to_numpy()).mean():.4f}"
        if "control" in data:
            text += f", over the control's {float(data['control'].mean()):.4f}"
        table.notes.append(text + ".")
    if table.rows:
        table.notes.append("Without ±: ‖J(x)τ‖² of single points is not stored.")
    return table


TABLES = {"tau_jp": tau_jp}
