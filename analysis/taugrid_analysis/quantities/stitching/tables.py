# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Stitched models."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.run.opened import Run


def stitching(run: Run) -> Table:
    """Means over pairs and over tasks, at the λ nearest to the paper's 0.4."""
    table = Table(
        "stitching",
        "Stitched models: mean accuracy with features mixed at a block and θ0 above",
        [
            Column("regime"),
            Column("λ", 2),
            Column("block"),
            *(Column(name, 4) for name in ("pair, averaged", "own edit alone", "other edit alone")),
            *(Column(name, 4) for name in ("2f(θ0) − f(θ0 + λτ)", "f(θ0 − λτ)")),
        ],
    )
    for regime in run.results.names("stitching"):
        data = run.data("stitching", regime)
        assert data is not None
        row = int(np.argmin(np.abs(data["lambda"].to_numpy() - 0.4)))
        single = data["single"].to_numpy()[:, :, row]
        own_edit = single[np.eye(len(single), dtype=bool)].mean(axis=0)
        others = np.nanmean(single[~np.eye(len(single), dtype=bool)], axis=0) if len(single) > 1 else None
        for place, block in enumerate(data["block"].to_numpy()):
            pair = float(data["both"].to_numpy()[:, :, row, place].mean()) if "both" in data else float("nan")
            other = float(others[place]) if others is not None else float("nan")
            ends = [float(data[name].to_numpy()[:, row, place].mean()) for name in ("negated", "edited")]
            table.rows.append(
                [regime, float(data["lambda"][row]), int(block), pair, float(own_edit[place]), other, *ends]
            )
    return table


TABLES = {"stitching": stitching}
