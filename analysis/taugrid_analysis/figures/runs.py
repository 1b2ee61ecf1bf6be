# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The sum of all task vectors, training, and where the time went."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis.figures import style
from taugrid_analysis.records import Floats
from taugrid_analysis.run import Run

MOST = 3  # regimes whose single tasks are drawn too
STEPS = 150  # points of a training curve
UNITS = 600  # bars; of more, those of a rank and kind are drawn as one


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


def timings(run: Run) -> Figure | None:
    """A bar a rank: seconds of its units by kind, the single units set apart by thin lines."""
    units = run.results.units()
    if not units:
        return None
    ranks = sorted({unit.rank for unit in units})
    kinds = list(dict.fromkeys(unit.kind for unit in units))
    tints = {kind: style.KIND_COLOURS[index % len(style.KIND_COLOURS)] for index, kind in enumerate(kinds)}
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 1.3 + 0.42 * min(len(ranks), 32)))
        axes = figure.subplots()
        single = len(units) <= UNITS
        for row, rank in enumerate(ranks):
            begin = 0.0
            for kind in kinds:
                seconds = [unit.seconds for unit in units if (unit.rank, unit.kind) == (rank, kind)]
                for length in seconds if single else [sum(seconds)]:
                    line = 0.4 if single else 0.0
                    axes.barh(row, length, 0.72, begin, color=tints[kind], edgecolor="white", linewidth=line)
                    begin += length
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
