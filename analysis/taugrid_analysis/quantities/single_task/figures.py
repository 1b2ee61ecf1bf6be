# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Accuracies of each task's own model, as bars and against each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis.numbers import sampling
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.means import mean
from taugrid_analysis.page import style
from taugrid_analysis.run.opened import Run


def accuracies(run: Run, names: list[str] | None = None) -> Figure | None:
    """Draws the accuracy of each task's own model."""
    wanted = [run.results.start, *run.regimes] if names is None else names
    known = [name for name in wanted if run.data("single_task", name) is not None]
    return by_task(run, bars(run, known, "accuracy"), "test accuracy") if known else None


Bars = dict[str, tuple[Array, Array]]  # name: values [T] and their standard errors


def bars(run: Run, names: list[str], column: str) -> Bars:
    """The values and errors of a column of the frame `tasks`."""
    frame = run.tasks
    return {
        name: tuple(frame.loc[name][[column, f"{column}_error"]].to_numpy(dtype=float).T) for name in names
    }


def by_task(run: Run, bars: Bars, label: str) -> Figure:
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 3.6))
        draw_by_task(figure.subplots(), run, bars, label)
    return figure


def draw_by_task(axes: Axes, run: Run, bars: Bars, label: str) -> None:
    """A group of bars a task, one bar a regime, and a group of means; numbers where there is room.

    Thin lines: one standard error of the evaluation sample.
    """
    tasks = run.results.tasks
    places = np.arange(len(tasks) + 1)
    thick = 0.84 / len(bars)
    for index, (name, (values, errors)) in enumerate(bars.items()):
        heights = np.append(values, mean(values))
        spread = np.append(errors, sampling.of_mean(errors))
        shift = (index - (len(bars) - 1) / 2) * thick
        drawn = axes.bar(
            places + shift, heights, thick * 0.92, color=style.colour(name, run.regimes), label=name
        )
        axes.vlines(places + shift, heights - spread, heights + spread, color=style.INK, linewidth=0.6)
        if len(bars) <= ROOM:
            turned = 90 if len(bars) > 3 else 0
            axes.bar_label(drawn, fmt="{:.2f}", fontsize=6.2, padding=1.5, rotation=turned)
    axes.axvline(len(tasks) - 0.5, color=style.FAINT, linewidth=1)
    axes.set_xticks(places, [*tasks, "mean"])
    tallest = max(1.0, *(float(np.nanmax(values, initial=0.0)) for values, _ in bars.values()))
    axes.set(ylabel=label, ylim=(0, 1.12 * tallest), xlim=(-0.6, len(tasks) + 0.6))
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.legend(loc="lower left", ncols=min(len(bars), 5), bbox_to_anchor=(0, 1.0))
    style.grid(axes)
    axes.tick_params(axis="x", length=0)


ROOM = 5  # bars in a group that leave room for their numbers


def against(runs: Sequence[Run], series: list[tuple[str, str, str]], means: bool = False) -> Figure | None:
    """Single-task accuracies: (x's regime, y's, legend); on the diagonal nothing is lost. A marker a run."""
    points = []
    for place, run in enumerate(runs):
        for x, y, legend in series:
            if run.data("single_task", x) is not None and run.data("single_task", y) is not None:
                title = f"{legend}, {style.run_title(run, runs)}" if len(runs) > 1 else legend
                points.append((run, place, x, y, title))
    if not points:
        return None
    with style.settings():
        figure = Figure(figsize=(4.9, 4.6))
        axes = figure.subplots()
        low, high = 1.0, 0.0
        for run, place, x, y, title in points:
            (a, across), (b, along) = bars(run, [x, y], "accuracy").values()
            tint = style.colour(y, run.regimes)
            index = place if len(runs) > 1 else [entry[1] for entry in series].index(y)
            mark = "o^sDvP"[index % 6]
            faint = 0.35 if means else 0.8
            if np.isfinite(across).all() and np.isfinite(along).all():
                axes.errorbar(a, b, along, across, "none", ecolor=tint, elinewidth=0.6, alpha=0.5 * faint)
            axes.scatter(a, b, s=34, marker=mark, color=tint, alpha=faint, linewidths=0, label=title)
            if means:
                axes.scatter(mean(a), mean(b), s=110, marker=mark, color=tint, edgecolors=style.INK)
            low, high = min(low, a.min(), b.min()), max(high, a.max(), b.max())
        pad = 0.05 * (high - low) or 0.05
        axes.plot([low - pad, high + pad], [low - pad, high + pad], "--", color=style.INK, linewidth=0.8)
        axes.set_xlim(low - pad, high + pad)
        axes.set_ylim(low - pad, high + pad)
        axes.set_box_aspect(1)
        xs = " / ".join(dict.fromkeys(x for x, _, _ in series))
        axes.set(xlabel=f"single-task accuracy, {xs}", ylabel="single-task accuracy")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0))
        style.grid(axes, "both")
    return figure
