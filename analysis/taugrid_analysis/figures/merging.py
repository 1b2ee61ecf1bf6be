# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Accuracy of merged models over what the merge takes."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis import merges
from taugrid_analysis.figures import style
from taugrid_analysis.run import Run

GIGA = 1e9


def accuracy_over_cost(run: Run) -> Figure | None:
    """A point a method and regime, over seconds, gigabytes of vectors, and inputs through models."""
    frame = merges.costs(run)
    if frame.empty:
        return None
    frame = frame.assign(
        inputs=frame["forward_passes"] + frame["backward_passes"], gigabytes=frame["bytes"] / GIGA
    )
    panels = [
        ("seconds", "seconds"),
        ("gigabytes", "GB read of the vectors"),
        ("inputs", "inputs through models, both ways"),
    ]
    shown = [(name, title) for name, title in panels if np.nanmax(frame[name], initial=0) > 0]
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 4.4))
        plots = np.asarray(figure.subplots(1, len(shown), sharey=True, squeeze=False)).ravel()
        for axes, (name, title) in zip(plots, shown, strict=True):
            for regime, rows in frame.groupby("regime", sort=False):
                known = rows[np.isfinite(rows[name])]
                tint = style.colour(str(regime), run.regimes)
                told = {"fmt": "o", "markersize": 4, "capsize": 2, "color": tint, "label": str(regime)}
                axes.errorbar(known[name], known["normalized"], known["error"], **told)
                _names(axes, known[name].tolist(), known["normalized"].tolist(), known["method"].tolist())
            if name == "inputs":  # of most methods none
                axes.set_xscale("symlog", linthresh=1)
            else:
                axes.set_xscale("log")
            axes.set_xlabel(title)
            axes.margins(x=0.2)
            style.grid(axes, "both")
        plots[0].set_ylabel("accuracy over each task's own model, mean over tasks")
        plots[0].legend(loc="best", fontsize=8)
    return figure


def _names(axes: Axes, x: list[float], y: list[float], names: list[str]) -> None:
    for place in zip(x, y, names, strict=True):
        axes.annotate(place[2], place[:2], fontsize=6, xytext=(4, 3), textcoords="offset points")
