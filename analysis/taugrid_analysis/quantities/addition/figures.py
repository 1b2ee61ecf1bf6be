# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The sum of all task vectors over α, and by task."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis.page import style
from taugrid_analysis.quantities.single_task import figures as single_task_figures
from taugrid_analysis.quantities.training.figures import MOST
from taugrid_analysis.run.opened import Run


def addition(run: Run, regimes: list[str] | None = None) -> Figure | None:
    names = run.results.names("addition") if regimes is None else regimes
    if not names:
        return None
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 3.9))
        draw_addition(figure.subplots(), run, thin=len(names) <= MOST, regimes=names)
    return figure


def draw_addition(axes: Axes, run: Run, thin: bool = True, regimes: list[str] | None = None) -> None:
    """Mean test accuracy of θ0 + α Σ τ; the marker is the α that validation chose."""
    names = run.results.names("addition") if regimes is None else regimes
    for name in names:
        data = run.data("addition", name)
        assert data is not None
        tint = style.colour(name, run.regimes)
        data = data.sortby("alpha")
        alpha, test = data["alpha"].to_numpy(), data["test_accuracy"].to_numpy()
        absolute, chosen = float(data["absolute"]), float(data["chosen_alpha"])
        if thin:
            axes.plot(alpha, test, color=tint, alpha=0.18, linewidth=0.8)
        best = f"{name}: {absolute:.3f} at α = {chosen:g}"
        axes.plot(alpha, test.mean(axis=1), color=tint, label=best)
        if thin:
            check = data["validation_accuracy"].mean("task").to_numpy()
            axes.plot(alpha, check, color=tint, linewidth=1, linestyle=":", label=f"{name}, on validation")
        error = run.summary.loc[name]["absolute_error"]
        axes.errorbar(
            chosen, absolute, error if np.isfinite(error) else None, color=tint, linewidth=1, capsize=2.5
        )
        axes.plot(chosen, absolute, "o", color=tint, markersize=8, markeredgecolor="white")
    start = run.results.start
    level = run.summary.loc[start]["single"]
    if np.isfinite(level):
        tint = style.colour(start, run.regimes)
        axes.axhline(level, color=tint, linestyle="--", linewidth=1)
        axes.text(
            0.995,
            level,
            start,
            color=tint,
            ha="right",
            va="bottom",
            transform=axes.get_yaxis_transform(),
        )
    axes.set(xlabel="α, one for all tasks", ylabel="accuracy, mean over tasks")
    axes.margins(x=0.02)
    style.legend(axes, len(names), "lower left")
    style.grid(axes)


def added(run: Run, regimes: list[str], normalized: bool = False) -> Figure | None:
    """Each task's accuracy in the sum of all task vectors, at the chosen α."""
    known = [name for name in regimes if run.data("addition", name) is not None]
    if not known:
        return None
    absolute = single_task_figures.bars(run, known, "added")
    start = run.results.start
    if run.data("single_task", start) is not None and not normalized:
        absolute = single_task_figures.bars(run, [start], "accuracy") | absolute
    relative = single_task_figures.bars(
        run, [name for name in known if run.data("single_task", name) is not None], "normalized"
    )
    if not normalized or not relative:
        return single_task_figures.by_task(run, absolute, "accuracy after addition")
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 6.8))
        above, below = figure.subplots(2, 1)
        single_task_figures.draw_by_task(above, run, absolute, "accuracy after addition")
        single_task_figures.draw_by_task(below, run, relative, "… over the task's own model")
        below.get_legend().remove()
        below.axhline(1, color=style.INK, linewidth=0.7, linestyle=":")
    return figure
