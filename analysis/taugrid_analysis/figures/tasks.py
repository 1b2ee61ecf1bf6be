# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Single tasks and their vectors: accuracy, cosines, smoothness against loss gap, the NTK's local energy."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis import measures
from taugrid_analysis.figures import style
from taugrid_analysis.records import Array
from taugrid_analysis.results import Results


def accuracies(results: Results) -> Figure | None:
    names = [name for name in (results.start, *results.regimes) if results.single_task(name) is not None]
    if not names:
        return None
    with style.settings():
        figure = Figure(figsize=(11.0, 3.4))
        axes = figure.subplots()
        places = np.arange(len(results.tasks) + 1)
        thick = 0.8 / len(names)
        for index, name in enumerate(names):
            record = results.single_task(name)
            assert record is not None
            heights = np.append(record.accuracy, measures.mean(record.accuracy))
            shift = (index - (len(names) - 1) / 2) * thick
            bars = axes.bar(
                places + shift, heights, thick * 0.92, color=style.colour(name, results.regimes), label=name
            )
            axes.bar_label(bars, fmt="{:.2f}", fontsize=6.8, padding=1.5)
        axes.axvline(len(results.tasks) - 0.5, color=style.FAINT, linewidth=1)
        axes.set_xticks(places, [*results.tasks, "mean"])
        axes.set(ylabel="test accuracy", ylim=(0, 1.08), xlim=(-0.6, len(results.tasks) + 0.6))
        axes.set_yticks(np.linspace(0, 1, 6))
        axes.legend(loc="upper right", ncols=len(names), bbox_to_anchor=(1, 1.13))
        style.grid(axes)
        axes.tick_params(axis="x", length=0)
    return figure


def cosines(results: Results) -> Figure | None:
    names = results.names("similarity")
    if not names:
        return None
    records = {name: results.similarity(name) for name in names}
    largest = max(
        float(np.nanmax(np.abs(measures.off_diagonal(record.cosine))))
        for record in records.values()
        if record
    )
    top = max(0.05, float(np.ceil(largest * 20) / 20))
    with style.settings():
        figure = Figure(figsize=(min(11.0, 5.5 * len(names)), 4.6 if len(names) < 3 else 3.6))
        plots = np.atleast_1d(np.asarray(figure.subplots(1, len(names))))
        for axes, (name, record) in zip(plots, records.items(), strict=True):
            assert record is not None
            shown = record.cosine.astype(float).copy()
            np.fill_diagonal(shown, np.nan)
            image = axes.imshow(shown, cmap=style.SIGNED_MAP, vmin=-top, vmax=top, interpolation="none")
            _numbers(axes, shown, top)
            _names(axes, results.tasks, axes is plots[0])
            axes.set_title(f"{name}: cosine of task vectors")
        bar = figure.colorbar(image, ax=list(plots), shrink=0.8, pad=0.015)
        bar.outline.set_visible(False)
    return figure


def _numbers(axes: Axes, values: Array, top: float) -> None:
    for row, column in np.ndindex(*values.shape):
        value = values[row, column]
        if np.isfinite(value):
            ink = "white" if abs(value) > 0.75 * top else "#101215"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=ink)


def _names(axes: Axes, tasks: list[str], left: bool = True) -> None:
    axes.set_xticks(range(len(tasks)), tasks, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(tasks)), tasks if left else [""] * len(tasks))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def smoothness(results: Results) -> Figure | None:
    """λ_max of a task against the loss gap of that task in each of its pairs."""
    points = {name: loss_gaps(results, name) for name in results.names("smoothness")}
    known = {name: both for name, both in points.items() if both is not None}
    if not known:
        return None
    with style.settings():
        figure = Figure(figsize=(11.0, 3.7))
        plots = np.atleast_1d(np.asarray(figure.subplots(1, len(known))))
        for axes, (name, (curvature, gap)) in zip(plots, known.items(), strict=True):
            axes.scatter(
                curvature, gap, s=22, color=style.colour(name, results.regimes), alpha=0.65, linewidths=0
            )
            axes.axhline(0, color=style.FAINT, linewidth=0.8)
            rank = measures.rank_correlation(curvature, gap)
            axes.set(xlabel="λmax of the training loss at θ0+τ", ylabel="loss gap at α = 0.5")
            axes.set_title(f"{name}: {len(gap)} points, rank correlation {rank:.2f}")
            style.grid(axes, "both")
    return figure


def loss_gaps(results: Results, regime: str) -> tuple[Array, Array] | None:
    """(λ_max, gap), two points a pair."""
    curvature, record = results.smoothness(regime), results.similarity(regime)
    if curvature is None or record is None or record.loss_gap is None:
        return None
    return curvature.lambda_max[results.pairs].ravel(), record.loss_gap.ravel()


def local_energy(results: Results) -> Figure | None:
    """Left: the energy point by point for a typical pair. Right: the trained task's share for all."""
    starts = results.names("ntk")
    if not starts:
        return None
    with style.settings():
        figure = Figure(figsize=(11.0, 4.3 * len(starts)))
        rows = np.atleast_2d(np.asarray(figure.subplots(len(starts), 2, width_ratios=[1.15, 1])))
        for (points, shares), start in zip(rows, starts, strict=True):
            record = results.ntk(start)
            assert record is not None
            share = measures.own_share(record.local_energy)
            if not np.isfinite(share).any():
                continue
            task, control = _median_pair(share)
            _points(points, record.local_energy[task, control], results.tasks[task], results.tasks[control])
            image = shares.imshow(share, cmap=style.SIGNED_MAP, vmin=0, vmax=1, interpolation="none")
            for row, column in np.ndindex(*share.shape):
                if np.isfinite(share[row, column]):
                    level = share[row, column]
                    ink = "white" if abs(level - 0.5) > 0.36 else "#101215"
                    shares.text(column, row, f"{level:.2f}", ha="center", va="center", fontsize=7, color=ink)
            _names(shares, results.tasks)
            shares.set(
                xlabel="control task", ylabel="trained task", title=f"{start}: own share of the energy"
            )
            figure.colorbar(image, ax=shares, shrink=0.85, pad=0.02).outline.set_visible(False)
    return figure


def _median_pair(share: Array) -> tuple[int, int]:
    flat = np.argsort(np.where(np.isfinite(share), share, np.inf), axis=None)
    middle = flat[int(np.isfinite(share).sum() - 1) // 2]
    row, column = np.unravel_index(middle, share.shape)
    return int(row), int(column)


def _points(axes: Axes, energy: Array, task: str, control: str) -> None:
    level = np.nanmean(energy.astype(float), axis=0)
    half = len(level) // 2
    for start, name, tint in ((0, task, "#b8431a"), (half, control, "#1f5f9e")):
        part = level[start : start + half]
        place = np.arange(start, start + half)
        axes.vlines(place, 0, part, color=tint, alpha=0.55, linewidth=1.2)
        axes.scatter(place, part, s=9, color=tint, zorder=3)
        axes.hlines(part.mean(), start - 0.5, start + half - 0.5, color=tint, linewidth=1.2, linestyle="--")
        role = "trained" if start == 0 else "control"
        axes.text(
            start + half / 2,
            1.01,
            f"{name} ({role})",
            color=tint,
            ha="center",
            transform=axes.get_xaxis_transform(),
        )
    axes.set(xlabel="point", ylabel="local energy Σφ²", ylim=(0, None), xlim=(-1, 2 * half))
    axes.set_title("the pair of median share\n")
    style.grid(axes)
