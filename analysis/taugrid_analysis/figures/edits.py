# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Edited models: sums by task, negation, further steps, and what a training step costs."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis import measures, outcomes
from taugrid_analysis.figures import style, tasks
from taugrid_analysis.measures import mean
from taugrid_analysis.records import Array, Choice
from taugrid_analysis.results import Results

BLUE, RED = "#2a7fba", "#c8322b"
MEGA = 1e6


def added(results: Results, regimes: list[str], normalized: bool = False) -> Figure | None:
    """Each task's accuracy in the sum of all task vectors, at the chosen α."""
    absolute: dict[str, Array] = {}
    relative: dict[str, Array] = {}
    start = results.single_task(results.start)
    if start is not None and not normalized:
        absolute[results.start] = np.asarray(start.accuracy, dtype=float)
    for name in regimes:
        record, single = results.addition(name), results.single_task(name)
        if record is None:
            continue
        absolute[name] = outcomes.added_by_task(record)
        if single is not None:
            relative[name] = outcomes.normalized_by_task(record, single)
    if not absolute:
        return None
    if not normalized or not relative:
        return tasks.by_task(results, absolute, "accuracy after addition")
    with style.settings():
        figure = Figure(figsize=(11.0, 6.8))
        above, below = figure.subplots(2, 1)
        tasks.draw_by_task(above, results, absolute, "accuracy after addition")
        tasks.draw_by_task(below, results, relative, "… over the task's own model")
        below.get_legend().remove()
        below.axhline(1, color=style.INK, linewidth=0.7, linestyle=":")
    return figure


def negation(results: Results) -> Figure | None:
    """Means and single tasks after θ0 − α τ, α chosen over either paper's range."""
    names = results.names("negation")
    if not names:
        return None
    start = results.single_task(results.start)
    with style.settings():
        figure = Figure(figsize=(11.0, 4.0))
        target, control = figure.subplots(1, 2)
        for place, name in enumerate(names):
            record = results.negation(name)
            assert record is not None
            tint = style.colour(name, results.regimes)
            choices = [record.narrow] + ([record.wide] if record.wide is not None else [])
            for index, choice in enumerate(choices):
                at = place + (index - (len(choices) - 1) / 2) * 0.4
                _bar(target, at, choice, choice.target, tint, index)
                _bar(control, at, choice, choice.control, tint, index)
        if start is not None:
            _level(target, mean(start.accuracy), results.start)
        first = results.negation(names[0])
        assert first is not None
        if start is not None and start.control_accuracy is not None:
            _level(control, start.control_accuracy, results.start)
            least = first.threshold * start.control_accuracy
            _level(control, least, f"{100 * first.threshold:g} %", above=False)
        for hatch, text in (("", "α in [0,1]"), ("////", "α in [0,3]")):
            target.bar(0, 0, color="white", edgecolor=style.INK, hatch=hatch, linewidth=0.6, label=text)
        target.set(ylabel="target accuracy", title="Target: to be forgotten")
        control.set(ylabel="control accuracy", title=f"Control, {first.control}: to be kept")
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


def _bar(axes: Axes, at: float, choice: Choice, values: Array, tint: str, index: int) -> None:
    kept = np.isfinite(choice.alpha)
    axes.bar(
        at,
        mean(values[kept]),
        0.36,
        color=tint,
        alpha=0.9 if index == 0 else 0.55,
        hatch="////" if index else "",
        edgecolor="white",
        linewidth=0,
    )
    axes.scatter(np.full(int(kept.sum()), at), values[kept], s=7, color=style.INK, alpha=0.5, linewidths=0)


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


def continuation(results: Results) -> Figure | None:
    """τJp and normalised accuracy along the further steps, for the pair of largest τJp."""
    names = results.names("continuation")
    if not names:
        return None
    with style.settings():
        figure = Figure(figsize=(6.4 * min(len(names), 2), 3.8))
        for axes, name in zip(np.atleast_1d(np.asarray(figure.subplots(1, len(names)))), names, strict=True):
            record = results.continuation(name)
            assert record is not None
            worst = outcomes.worst_pair(record, results.pairs)
            product = outcomes.pair_trace(record, results.pairs)
            other = axes.twinx()
            axes.plot(record.step, record.pair_normalized[:, worst], "o-", color=BLUE, markersize=3.5)
            axes.plot(record.step, record.normalized, ":", color=BLUE, linewidth=1.2)
            other.plot(record.step, product[:, worst], "s-", color=RED, markersize=3.5)
            axes.set_xlabel("further steps")
            axes.set_ylabel("normalised accuracy at α = 1 (dotted: all tasks)", color=BLUE)
            other.set_ylabel("τJp", color=RED)
            other.set_ylim(0, None)
            other.spines["right"].set_visible(True)
            axes.tick_params(axis="y", colors=BLUE)
            other.tick_params(axis="y", colors=RED)
            axes.set_title(f"{name}: {results.pair_name(worst)}")
            style.grid(axes)
    return figure


def cost(results: Results) -> Figure | None:
    names = results.names("cost")
    records = {name: record for name in names if (record := results.cost(name)) is not None}
    if not records:
        return None
    panels = [
        ("milliseconds a step", [1e3 * record.seconds_per_step for record in records.values()]),
        ("peak memory of a step, MB", [record.peak_memory / MEGA for record in records.values()]),
        ("trained parameters, 10⁶", [record.trainable_parameters / MEGA for record in records.values()]),
    ]
    tints = [style.colour(name, results.regimes) for name in records]
    with style.settings():
        figure = Figure(figsize=(11.0, 1.0 + 0.3 * len(records)))
        plots = np.asarray(figure.subplots(1, len(panels), sharey=True))
        for axes, (title, values) in zip(plots, panels, strict=True):
            bars = axes.barh(range(len(records)), values, 0.7, color=tints)
            axes.bar_label(bars, fmt="{:.3g}", padding=2, fontsize=7.5)
            axes.set_xlabel(title)
            axes.margins(x=0.14)
            style.grid(axes, "x")
            axes.tick_params(axis="y", length=0)
        plots[0].set_yticks(range(len(records)), list(records))
        plots[0].invert_yaxis()
    return figure


def against(results: Results, series: list[tuple[str, str, str]], means: bool = False) -> Figure:
    """Single-task accuracies: (x's regime, y's regime, legend); on the diagonal nothing is lost."""
    with style.settings():
        figure = Figure(figsize=(4.9, 4.6))
        axes = figure.subplots()
        low, high = 1.0, 0.0
        for index, (x, y, legend) in enumerate(series):
            first, second = results.single_task(x), results.single_task(y)
            if first is None or second is None:
                continue
            a, b = np.asarray(first.accuracy, dtype=float), np.asarray(second.accuracy, dtype=float)
            tint = style.colour(y, results.regimes)
            mark = "o^sD"[index % 4]
            faint = 0.35 if means else 0.8
            axes.scatter(a, b, s=34, marker=mark, color=tint, alpha=faint, linewidths=0, label=legend)
            if means:
                centre = (measures.mean(a), measures.mean(b))
                axes.scatter(*centre, s=110, marker=mark, color=tint, edgecolors=style.INK)
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
