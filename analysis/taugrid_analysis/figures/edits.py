# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Edited models: sums by task, negation, further steps, and what a training step costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis import outcomes
from taugrid_analysis.figures import style, tasks
from taugrid_analysis.measures import mean
from taugrid_analysis.records import Array
from taugrid_analysis.regimes import is_linear
from taugrid_analysis.run import Run

BLUE, RED = "#2a7fba", "#c8322b"
MEGA = 1e6


def added(run: Run, regimes: list[str], normalized: bool = False) -> Figure | None:
    """Each task's accuracy in the sum of all task vectors, at the chosen α."""
    known = [name for name in regimes if run.data("addition", name) is not None]
    if not known:
        return None
    absolute = tasks.bars(run, known, "added")
    start = run.results.start
    if run.data("single_task", start) is not None and not normalized:
        absolute = tasks.bars(run, [start], "accuracy") | absolute
    relative = tasks.bars(
        run, [name for name in known if run.data("single_task", name) is not None], "normalized"
    )
    if not normalized or not relative:
        return tasks.by_task(run, absolute, "accuracy after addition")
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 6.8))
        above, below = figure.subplots(2, 1)
        tasks.draw_by_task(above, run, absolute, "accuracy after addition")
        tasks.draw_by_task(below, run, relative, "… over the task's own model")
        below.get_legend().remove()
        below.axhline(1, color=style.INK, linewidth=0.7, linestyle=":")
    return figure


def negation(run: Run) -> Figure | None:
    """Means and single tasks after θ0 − α τ, α chosen over either paper's range."""
    names = run.results.names("negation")
    first = run.data("negation", names[0]) if names else None
    if first is None:
        return None
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 4.0))
        target, control = figure.subplots(1, 2)
        for place, name in enumerate(names):
            row, frame = run.summary.loc[name], run.tasks.loc[name]
            tint = style.colour(name, run.regimes)
            prefixes = [prefix for prefix in ("", "wide_") if np.isfinite(row[f"{prefix}kept"])]
            for index, prefix in enumerate(prefixes):
                at = place + (index - (len(prefixes) - 1) / 2) * 0.4
                for axes, column in ((target, f"{prefix}negated"), (control, f"{prefix}negated_control")):
                    errors = float(row[f"{column}_error"])
                    _bar(
                        axes, at, float(row[column]), errors, frame[column].to_numpy(dtype=float), tint, index
                    )
        before = float(run.summary.loc[run.results.start]["single"])
        kept = outcomes.control_accuracy(run.results)
        share = first.attrs["control_threshold"]
        if np.isfinite(before):
            _level(target, before, run.results.start)
        if np.isfinite(kept):
            _level(control, kept, run.results.start)
            _level(control, share * kept, f"{100 * share:g} %", above=False)
        for hatch, text in (("", "α in [0,1]"), ("////", "α in [0,3]")):
            target.bar(0, 0, color="white", edgecolor=style.INK, hatch=hatch, linewidth=0.6, label=text)
        target.set(ylabel="target accuracy", title="Target: to be forgotten")
        control.set(ylabel="control accuracy", title=f"Control, {first.attrs['control']}: to be kept")
        for axes in (target, control):
            turned = len(names) > 4
            axes.set_xticks(
                range(len(names)), names, rotation=30 if turned else 0, ha="right" if turned else "center"
            )
            axes.set_ylim(0, None)
            style.grid(axes)
            axes.tick_params(axis="x", length=0)
        figure.legend(*target.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


def _bar(axes: Axes, at: float, level: float, error: float, values: Array, tint: str, index: int) -> None:
    """A mean with its standard error, and the tasks as dots."""
    axes.bar(
        at,
        level,
        0.36,
        color=tint,
        alpha=0.9 if index == 0 else 0.55,
        hatch="////" if index else "",
        edgecolor="white",
        linewidth=0,
    )
    if np.isfinite(level) and np.isfinite(error):
        axes.vlines(at, level - error, level + error, color=style.INK, linewidth=1.0)
    known = values[np.isfinite(values)]
    axes.scatter(np.full(len(known), at), known, s=7, color=style.INK, alpha=0.5, linewidths=0)


def _level(axes: Axes, value: float, text: str, above: bool = True) -> None:
    axes.axhline(value, color=style.INK, linewidth=0.8, linestyle="--")
    axes.text(
        1.0,
        value,
        f" {text}",
        ha="left",
        va="bottom" if above else "top",
        fontsize=7.5,
        transform=axes.get_yaxis_transform(),
    )


def continuation(run: Run) -> Figure | None:
    """τJp and normalised accuracy along the further steps, for the pairs of most and of least τJp."""
    names = run.results.names("continuation")
    if not names:
        return None
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 3.8 * len(names)))
        rows = np.atleast_2d(np.asarray(figure.subplots(len(names), 2)))
        for line, name in zip(rows, names, strict=True):
            data = run.data("continuation", name)
            assert data is not None
            product = outcomes.pair_trace(data, run.results.pairs)
            extremes = outcomes.extreme_pairs(data, run.results.pairs)
            step, accuracy = data["step"].to_numpy(), data["pair_normalized"].to_numpy()
            for axes, pair, title in zip(line, extremes, ("most τJp", "least τJp"), strict=True):
                other = axes.twinx()
                axes.plot(step, accuracy[:, pair], "o-", color=BLUE, markersize=3.5)
                axes.plot(step, data["normalized"].to_numpy(), ":", color=BLUE, linewidth=1.2)
                other.plot(step, product[:, pair], "s-", color=RED, markersize=3.5)
                axes.set_xlabel("further steps")
                axes.set_ylabel("normalised accuracy at α = 1 (dotted: all tasks)", color=BLUE)
                other.set_ylabel("τJp", color=RED)
                other.set_ylim(0, None)
                other.spines["right"].set_visible(True)
                axes.tick_params(axis="y", colors=BLUE)
                other.tick_params(axis="y", colors=RED)
                axes.set_title(f"{name}, {title}: {run.results.pair_name(pair)}")
                style.grid(axes)
    return figure


def cost(run: Run) -> Figure | None:
    known = {name: data for name in run.results.names("cost") if (data := run.data("cost", name)) is not None}
    if not known:
        return None

    def values(column: str) -> list[float]:
        return [run.results.positive(data, column) for data in known.values()]

    weights = [
        4 * (2 if is_linear(name) else 1) * one for name, one in zip(known, values("parameters"), strict=True)
    ]
    panels = [
        ("milliseconds a step", [1e3 * one for one in values("seconds_per_step")]),
        ("peak memory of a step, MB", [one / MEGA for one in values("peak_memory")]),
        ("four bytes a parameter, MB", [one / MEGA for one in weights]),
        ("trained parameters, 10⁶", [one / MEGA for one in values("trainable_parameters")]),
    ]
    tints = [style.colour(name, run.regimes) for name in known]
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 1.0 + 0.3 * len(known)))
        plots = np.asarray(figure.subplots(1, len(panels), sharey=True))
        for axes, (title, numbers) in zip(plots, panels, strict=True):
            bars = axes.barh(range(len(known)), numbers, 0.7, color=tints)
            axes.bar_label(bars, fmt="{:.3g}", padding=2, fontsize=7.5)
            axes.set_xlabel(title)
            axes.margins(x=0.2)
            style.grid(axes, "x")
            axes.tick_params(axis="y", length=0)
        plots[0].set_yticks(range(len(known)), list(known))
        plots[0].invert_yaxis()
    return figure


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
            (a, across), (b, along) = tasks.bars(run, [x, y], "accuracy").values()
            tint = style.colour(y, run.regimes)
            index = place if len(runs) > 1 else [one[1] for one in series].index(y)
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
