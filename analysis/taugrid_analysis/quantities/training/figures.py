# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Curves of the training loss."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.page import style
from taugrid_analysis.run.opened import Run

MOST = 3  # regimes whose single tasks are drawn too
STEPS = 150  # points of a training curve


def smoothed(run: Run, name: str) -> tuple[Floats, Floats]:
    """Steps, and each task's loss as a moving average over a thirtieth of them [T, …], thinned for a page."""
    data = run.data("training", name)
    assert data is not None
    loss = np.atleast_2d(data["loss"].to_numpy())
    wide = max(1, loss.shape[1] // 30)
    kernel = np.ones(wide) / wide
    smooth = np.stack([np.convolve(row, kernel, mode="valid") for row in loss])
    every = slice(None, None, -(-smooth.shape[1] // STEPS))
    return (np.arange(smooth.shape[1]) + (wide + 1) / 2)[every], smooth[:, every]


def training(run: Run) -> Figure | None:
    names = run.results.names("training")
    if not names:
        return None
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 3.2))
        axes = figure.subplots()
        for name in names:
            tint = style.colour(name, run.regimes)
            place, smooth = smoothed(run, name)
            if len(names) <= MOST:
                axes.plot(place, smooth.T, color=tint, alpha=0.3, linewidth=0.8)
            axes.plot(
                place,
                np.nanmean(smooth, axis=0),
                color=tint,
                label=f"{name}, mean over tasks" if len(smooth) > 1 else name,
            )
        axes.set(xlabel="step", ylabel="training loss", ylim=(0, None))
        style.legend(axes, len(names), "upper right")
        style.grid(axes)
    return figure
