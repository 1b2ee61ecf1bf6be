# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Accuracy over the number of tasks added."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from taugrid_analysis.page import style
from taugrid_analysis.quantities.subsets.by_size import by_size
from taugrid_analysis.run.opened import Run


def by_number(run: Run) -> Figure | None:
    """A line a regime: accuracy beside the single models' and θ0's, and normalised; bars: ± over subsets."""
    frame = by_size(run)
    if frame.empty:
        return None
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 3.9))
        absolute, normalized = figure.subplots(1, 2)
        for regime, rows in frame.groupby("regime", sort=False):
            tint = style.colour(str(regime), run.regimes)
            for axes, name in ((absolute, "absolute"), (normalized, "normalized")):
                options = {"color": tint, "marker": "o", "markersize": 4, "capsize": 2.5}
                axes.errorbar(rows["tasks"], rows[name], rows[f"{name}_error"], label=str(regime), **options)
            absolute.plot(
                rows["tasks"], rows["single"], ":", color=tint, linewidth=1, label=f"{regime}, each alone"
            )
        first = frame[frame["regime"] == frame["regime"].iloc[0]]  # all regimes have the same subsets
        tint = style.colour(run.results.start, run.regimes)
        absolute.plot(
            first["tasks"], first["start"], "--", color=tint, linewidth=1, label=f"{run.results.start} θ0"
        )
        normalized.axhline(1, color=style.INK, linewidth=0.7, linestyle=":")
        absolute.set(ylabel="accuracy, mean over a subset's tasks")
        normalized.set(ylabel="… over each task's own model")
        for axes in (absolute, normalized):
            _sizes(axes, sorted(set(frame["tasks"])))
        absolute.legend(loc="best", fontsize=8)
    return figure


def _sizes(axes: Axes, sizes: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("tasks added")
    style.grid(axes)
