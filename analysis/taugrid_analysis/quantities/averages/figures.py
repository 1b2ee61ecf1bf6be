# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Averages against ensembles (cross-task linearity, figure 4)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from taugrid_analysis.page import style
from taugrid_analysis.run.opened import Run


def averages(run: Run, regime: str) -> Figure | None:
    """Accuracy of averaged weights against that of averaged logits: a point a set, means over its tasks."""
    data = run.data("averages", regime)
    if data is None:
        return None
    size = data["sets"].to_numpy().sum(axis=1)
    with style.settings():
        figure = Figure(figsize=(8.0, 3.8))
        for axes, other in zip(figure.subplots(1, 2, sharey=True), ("logits", "features"), strict=True):
            x, y = (np.nanmean(data[name].to_numpy(), axis=1) for name in (other, "weights"))
            for place, count in enumerate(np.unique(size)):
                mine = size == count
                axes.scatter(
                    x[mine], y[mine], s=14, color=style.KIND_COLOURS[place % 8], label=f"{count} models"
                )
            low, high = min(x.min(), y.min()), max(x.max(), y.max())
            axes.plot([low, high], [low, high], "--", color=style.FAINT, linewidth=1, zorder=0)
            axes.set(xlabel=f"accuracy of averaged {other}")
            style.grid(axes, "both")
        figure.axes[0].set_ylabel("accuracy of averaged weights")
        figure.axes[0].legend(loc="lower right")
    return figure
