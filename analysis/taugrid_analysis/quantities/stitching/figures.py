# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Models stitched at a block (cross-task linearity, figures 9 and 10)."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from taugrid_analysis.page import style
from taugrid_analysis.run.opened import Run

SHOWN = 3
STITCHED, FIRST, SECOND = "#2a7fba", "#d9632a", "#2f9e78"


def cut(data: xr.Dataset) -> int:
    """The row of the block at three quarters of the depth, as the paper's 9 of 12 and 19 of 24."""
    blocks = data["block"].to_numpy()
    return int(np.argmin(np.abs(blocks - 0.75 * blocks.max())))


def stitched_pairs(run: Run, regime: str) -> Figure | None:
    """Accuracy on both tasks of three pairs, λ growing along each curve."""
    data = run.data("stitching", regime)
    if data is None or "both" not in data:
        return None
    block = cut(data)
    pair, single = data["both"].to_numpy()[..., block], data["single"].to_numpy()[..., block]
    order = np.argsort(pair[..., -1].mean(axis=1), kind="stable")
    chosen = order[np.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().astype(int)]
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 3.6))
        for axes, p in zip(np.atleast_1d(figure.subplots(1, len(chosen))), chosen, strict=True):
            i, j = run.results.pairs[p]
            names = [run.results.tasks[t] for t in (i, j)]
            curves = (
                (pair[p, 0], pair[p, 1], STITCHED, "both, averaged"),
                (single[i, i], single[i, j], FIRST, f"{names[0]} alone"),
                (single[j, i], single[j, j], SECOND, f"{names[1]} alone"),
            )
            for x, y, colour, label in curves:
                axes.plot(x, y, marker="o", markersize=3, color=colour, label=label, linewidth=1)
            axes.set(xlabel=f"accuracy on {names[0]}", ylabel=f"accuracy on {names[1]}")
            axes.legend(loc="best", fontsize=7)
            style.grid(axes, "both")
        figure.suptitle(f"features averaged at block {int(data['block'][block])}, θ0 above", fontsize=9)
    return figure


def stitched_negations(run: Run, regime: str) -> Figure | None:
    """Accuracy on the task, and on the control where there is one, against λ: means over tasks."""
    data = run.data("stitching", regime)
    if data is None:
        return None
    block = cut(data)
    parts = [("the task itself", "")] + ([("the control", "_control")] if "negated_control" in data else [])
    with style.settings():
        figure = Figure(figsize=(4.2 * len(parts), 3.4))
        for axes, (title, ending) in zip(np.atleast_1d(figure.subplots(1, len(parts))), parts, strict=True):
            for name, label, colour in (
                ("negated", "2f(θ0) − f(θ0 + λτ)", STITCHED),
                ("edited", "f(θ0 − λτ)", FIRST),
            ):
                values = data[f"{name}{ending}"].to_numpy()[..., block].mean(axis=0)
                axes.plot(
                    data["lambda"].to_numpy(), values, marker="o", markersize=3, color=colour, label=label
                )
            axes.set(xlabel="λ", ylabel="accuracy", title=f"on {title}, block {int(data['block'][block])}")
            axes.legend(loc="best", fontsize=7)
            style.grid(axes)
    return figure
