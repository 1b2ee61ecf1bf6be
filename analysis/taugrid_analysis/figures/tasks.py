# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Single tasks and their vectors: accuracy, cosines, smoothness against loss gap."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis import measures
from taugrid_analysis.correlation import rank_correlation
from taugrid_analysis.figures import style
from taugrid_analysis.records import Array
from taugrid_analysis.results import Results


def accuracies(results: Results, names: list[str] | None = None) -> Figure | None:
    """Of each task's own model."""
    wanted = [results.start, *results.regimes] if names is None else names
    known = {name: record for name in wanted if (record := results.single_task(name)) is not None}
    bars = {name: np.asarray(record.accuracy, dtype=float) for name, record in known.items()}
    return by_task(results, bars, "test accuracy") if bars else None


def by_task(results: Results, bars: dict[str, Array], label: str) -> Figure:
    with style.settings():
        figure = Figure(figsize=(11.0, 3.6))
        draw_by_task(figure.subplots(), results, bars, label)
    return figure


def draw_by_task(axes: Axes, results: Results, bars: dict[str, Array], label: str) -> None:
    """A group of bars a task, one bar a regime, and a group of means; numbers where there is room."""
    places = np.arange(len(results.tasks) + 1)
    thick = 0.84 / len(bars)
    for index, (name, values) in enumerate(bars.items()):
        heights = np.append(values, measures.mean(values))
        shift = (index - (len(bars) - 1) / 2) * thick
        drawn = axes.bar(
            places + shift, heights, thick * 0.92, color=style.colour(name, results.regimes), label=name
        )
        if len(bars) <= ROOM:
            turned = 90 if len(bars) > 3 else 0
            axes.bar_label(drawn, fmt="{:.2f}", fontsize=6.2, padding=1.5, rotation=turned)
    axes.axvline(len(results.tasks) - 0.5, color=style.FAINT, linewidth=1)
    axes.set_xticks(places, [*results.tasks, "mean"])
    tallest = max(1.0, *(float(np.nanmax(values, initial=0.0)) for values in bars.values()))
    axes.set(ylabel=label, ylim=(0, 1.12 * tallest), xlim=(-0.6, len(results.tasks) + 0.6))
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.legend(loc="lower left", ncols=min(len(bars), 5), bbox_to_anchor=(0, 1.0))
    style.grid(axes)
    axes.tick_params(axis="x", length=0)


def cosines(results: Results, names: list[str] | None = None) -> Figure | None:
    names = results.names("similarity") if names is None else names
    records = {name: record for name in names if (record := results.similarity(name)) is not None}
    if not records or len(results.tasks) < 2:
        return None
    largest = max(
        float(np.nanmax(np.abs(measures.off_diagonal(record.cosine)))) for record in records.values()
    )
    top = max(0.05, float(np.ceil(largest * 20) / 20))
    with style.settings():
        figure, plots = matrices(len(records))
        for index, (axes, (name, record)) in enumerate(zip(plots, records.items(), strict=True)):
            shown = record.cosine.astype(float).copy()
            np.fill_diagonal(shown, np.nan)
            image = axes.imshow(shown, cmap=style.SIGNED_MAP, vmin=-top, vmax=top, interpolation="none")
            _numbers(axes, shown, top)
            label(axes, results.tasks, index % WIDE == 0)
            axes.set_title(f"{name}: cosine of task vectors")
        bar = figure.colorbar(image, ax=plots, shrink=0.8, pad=0.015)
        bar.outline.set_visible(False)
    return figure


WIDE = 3  # matrices in a row
ROOM = 5  # bars in a group that leave room for their numbers


def matrices(count: int) -> tuple[Figure, list[Axes]]:
    """Axes for matrices with a row and a column a task."""
    columns, rows = min(count, WIDE), -(-count // WIDE)
    figure = Figure(figsize=(min(11.0, 5.5 * columns), rows * (4.6 if columns < WIDE else 3.9)))
    plots = list(np.asarray(figure.subplots(rows, columns, squeeze=False)).ravel())
    for spare in plots[count:]:
        spare.set_axis_off()
    return figure, plots[:count]


def _numbers(axes: Axes, values: Array, top: float) -> None:
    for row, column in np.ndindex(*values.shape):
        value = values[row, column]
        if np.isfinite(value):
            ink = "white" if abs(value) > 0.75 * top else "#101215"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6.2, color=ink)


def label(axes: Axes, tasks: list[str], left: bool = True) -> None:
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
        columns, rows = min(len(known), WIDE), -(-len(known) // WIDE)
        figure = Figure(figsize=(11.0, 3.7 * rows))
        plots = list(np.asarray(figure.subplots(rows, columns, squeeze=False)).ravel())
        for spare in plots[len(known) :]:
            spare.set_axis_off()
        for axes, (name, (curvature, gap)) in zip(plots, known.items(), strict=False):
            axes.scatter(
                curvature, gap, s=22, color=style.colour(name, results.regimes), alpha=0.65, linewidths=0
            )
            axes.axhline(0, color=style.FAINT, linewidth=0.8)
            rank = rank_correlation(curvature, gap)
            axes.set(xlabel="λmax of the training loss at θ0+τ", ylabel="loss gap at α = 0.5")
            axes.set_title(f"{name}: {len(gap)} points, rank corr. {rank:.2f}")
            style.grid(axes, "both")
    return figure


def loss_gaps(results: Results, regime: str) -> tuple[Array, Array] | None:
    """(λ_max, gap), two points a pair."""
    curvature, record = results.smoothness(regime), results.similarity(regime)
    if curvature is None or record is None or record.loss_gap is None:
        return None
    return curvature.lambda_max[results.pairs].ravel(), record.loss_gap.ravel()
