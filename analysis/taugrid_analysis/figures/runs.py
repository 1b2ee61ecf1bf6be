# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The sum of all task vectors, training, and where the time went."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis import measures
from taugrid_analysis.figures import style
from taugrid_analysis.results import Results

MOST = 3  # regimes whose single tasks are drawn too


def addition(results: Results, regimes: list[str] | None = None) -> Figure | None:
    names = results.names("addition") if regimes is None else regimes
    if not names:
        return None
    with style.settings():
        figure = Figure(figsize=(11.0, 3.9))
        draw_addition(figure.subplots(), results, thin=len(names) <= MOST, regimes=names)
    return figure


def draw_addition(axes: Axes, results: Results, thin: bool = True, regimes: list[str] | None = None) -> None:
    """Mean test accuracy of θ0 + α Σ τ; the marker is the α that validation chose."""
    names = results.names("addition") if regimes is None else regimes
    for name in names:
        record = results.addition(name)
        assert record is not None
        tint = style.colour(name, results.regimes)
        order = np.argsort(record.alpha)
        alpha, test = record.alpha[order], record.test_accuracy[order]
        if thin:
            axes.plot(alpha, test, color=tint, alpha=0.18, linewidth=0.8)
        best = f"{name}: {record.absolute:.3f} at α = {record.chosen_alpha:g}"
        axes.plot(alpha, test.mean(axis=1), color=tint, label=best)
        if thin:
            check = record.validation_accuracy[order].mean(axis=1)
            axes.plot(alpha, check, color=tint, linewidth=1, linestyle=":", label=f"{name}, on validation")
        axes.plot(
            record.chosen_alpha, record.absolute, "o", color=tint, markersize=8, markeredgecolor="white"
        )
    start = results.single_task(results.start)
    if start is not None:
        level, tint = measures.mean(start.accuracy), style.colour(results.start, results.regimes)
        axes.axhline(level, color=tint, linestyle="--", linewidth=1)
        axes.text(
            0.995,
            level,
            results.start,
            color=tint,
            ha="right",
            va="bottom",
            transform=axes.get_yaxis_transform(),
        )
    axes.set(xlabel="α, one for all tasks", ylabel="accuracy, mean over tasks")
    axes.margins(x=0.02)
    style.legend(axes, len(names), "lower left")
    style.grid(axes)


def training(results: Results) -> Figure | None:
    names = results.names("training")
    if not names:
        return None
    with style.settings():
        figure = Figure(figsize=(11.0, 3.2))
        axes = figure.subplots()
        for name in names:
            record = results.training(name)
            assert record is not None
            tint = style.colour(name, results.regimes)
            steps = record.loss.shape[1]
            wide = max(1, steps // 30)
            kernel = np.ones(wide) / wide
            smooth = np.stack([np.convolve(row, kernel, mode="valid") for row in record.loss])
            place = np.arange(smooth.shape[1]) + (wide + 1) / 2
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


def timings(results: Results) -> Figure | None:
    """A bar a rank: seconds of its units by kind, the single units set apart by thin lines."""
    units = results.units()
    if not units:
        return None
    ranks = sorted({unit.rank for unit in units})
    kinds = list(dict.fromkeys(unit.kind for unit in units))
    tints = {kind: style.KIND_COLOURS[index % len(style.KIND_COLOURS)] for index, kind in enumerate(kinds)}
    with style.settings():
        figure = Figure(figsize=(11.0, 1.3 + 0.42 * min(len(ranks), 32)))
        axes = figure.subplots()
        line = 0.4 if len(units) <= 600 else 0.0
        for row, rank in enumerate(ranks):
            mine = [unit for unit in units if unit.rank == rank]
            begin = 0.0
            for unit in sorted(mine, key=lambda unit: kinds.index(unit.kind)):
                axes.barh(
                    row, unit.seconds, 0.72, begin, color=tints[unit.kind], edgecolor="white", linewidth=line
                )
                begin += unit.seconds
            axes.text(begin, row, f" {begin:,.0f} s", va="center")
        for kind in kinds:
            axes.barh(0, 0, color=tints[kind], label=kind)
        axes.set_yticks(range(len(ranks)), [f"rank {rank}" for rank in ranks])
        axes.invert_yaxis()
        axes.set(xlabel="seconds of work units")
        axes.margins(x=0.06)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=min(len(kinds), 7))
        style.grid(axes, "x")
        axes.tick_params(axis="y", length=0)
    return figure
