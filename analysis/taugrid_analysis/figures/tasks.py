# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Single tasks and their vectors: accuracy, cosines, the bound of a loss gap against the gap."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from taugrid_analysis import measures, sampling, task_groups
from taugrid_analysis.bounds import bounds
from taugrid_analysis.correlation import rank_correlation
from taugrid_analysis.figures import style
from taugrid_analysis.records import Array
from taugrid_analysis.run import Run


def accuracies(run: Run, names: list[str] | None = None) -> Figure | None:
    """Of each task's own model."""
    wanted = [run.results.start, *run.regimes] if names is None else names
    known = [name for name in wanted if run.data("single_task", name) is not None]
    return by_task(run, bars(run, known, "accuracy"), "test accuracy") if known else None


Bars = dict[str, tuple[Array, Array]]  # name: values [T] and their standard errors


def bars(run: Run, names: list[str], column: str) -> Bars:
    """Of a column of the frame `tasks`."""
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
        heights = np.append(values, measures.mean(values))
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


def cosines(run: Run, names: list[str] | None = None) -> Figure | None:
    return _of_pairs(run, "cosine", "cosine of task vectors", 0, names)


def sign_conflicts(run: Run) -> Figure | None:
    return _of_pairs(run, "sign_conflict", "signs that differ", 0.5)


def mask_overlaps(run: Run) -> Figure | None:
    return _of_pairs(run, "mask_overlap", "overlap of masks", 0)


def _of_pairs(
    run: Run, matrix: str, title: str, middle: float, names: list[str] | None = None
) -> Figure | None:
    """A matrix of /similarity a regime, its colours around `middle`."""
    names = run.results.names("similarity") if names is None else names
    known = {
        name: data[matrix]
        for name in names
        if (data := run.data("similarity", name)) is not None and matrix in data
    }
    if not known or len(run.results.tasks) < 2:
        return None
    largest = max(
        float(np.nanmax(np.abs(measures.off_diagonal(values.to_numpy()) - middle), initial=0))
        for values in known.values()
    )
    top = max(0.05, float(np.ceil(largest * 20) / 20))
    with style.settings():
        figure, plots = matrices(len(known))
        for index, (axes, (name, values)) in enumerate(zip(plots, known.items(), strict=True)):
            shown = values.to_numpy().astype(float)
            np.fill_diagonal(shown, np.nan)
            image = axes.imshow(
                shown, cmap=style.SIGNED_MAP, vmin=middle - top, vmax=middle + top, interpolation="none"
            )
            _numbers(axes, shown, top, middle)
            label(axes, run.results.tasks, index % WIDE == 0)
            axes.set_title(f"{name}: {title}")
            axes.set_gid(f"{style.MAP}{matrix}/{name}")
        bar = figure.colorbar(image, ax=plots, shrink=0.8, pad=0.015)
        bar.outline.set_visible(False)
    return figure


def grouped(run: Run) -> Figure | None:
    """Cosines with tasks in the order of their clusters, their names in the colours of natural groups."""
    kinds = list(dict.fromkeys(run.results.groups))
    names = [name for name in run.results.names("similarity") if run.data("similarity", name) is not None]
    if len(kinds) < 2 or not names:
        return None
    tint = {kind: style.KIND_COLOURS[place % len(style.KIND_COLOURS)] for place, kind in enumerate(kinds)}
    with style.settings():
        figure, plots = matrices(len(names))
        for index, (axes, name) in enumerate(zip(plots, names, strict=True)):
            data = run.data("similarity", name)
            assert data is not None
            cosine = data["cosine"].to_numpy().astype(float)
            found = task_groups.clusters(cosine, len(kinds))
            shown = cosine[np.ix_(found.order, found.order)]
            np.fill_diagonal(shown, np.nan)
            top = max(0.05, float(np.nanmax(np.abs(shown))))
            image = axes.imshow(shown, cmap=style.SIGNED_MAP, vmin=-top, vmax=top, interpolation="none")
            boxes(axes, found.labels[found.order])
            label(axes, [run.results.tasks[place] for place in found.order], index % WIDE == 0)
            for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
                for tick, place in zip(ticks, found.order, strict=True):
                    tick.set_color(tint[run.results.groups[place]])
            axes.set_title(f"{name}: cosine, by cluster")
            figure.colorbar(image, ax=axes, shrink=0.8, pad=0.015).outline.set_visible(False)
        marks = [Patch(color=tint[kind], label=kind or "none") for kind in kinds]
        figure.legend(handles=marks, loc="outside lower center", ncols=3 * len(plots))
    return figure


def boxes(axes: Axes, ordered: Array) -> None:
    """Around the clusters of more than one of a matrix whose rows are in their order."""
    for number in np.unique(ordered):
        held = np.flatnonzero(ordered == number)
        if len(held) > 1:
            corner = (held[0] - 0.5, held[0] - 0.5)
            axes.add_patch(
                Rectangle(corner, len(held), len(held), fill=False, edgecolor="#d9632a", linewidth=2)
            )


WIDE = 3  # matrices in a row
ROOM = 5  # bars in a group that leave room for their numbers


def matrices(count: int) -> tuple[Figure, list[Axes]]:
    """Axes for matrices with a row and a column a task."""
    columns, rows = min(count, WIDE), -(-count // WIDE)
    figure = Figure(figsize=(min(1.0, 0.5 * columns) * style.PAGE, rows * (4.6 if columns < WIDE else 3.9)))
    plots = list(np.asarray(figure.subplots(rows, columns, squeeze=False)).ravel())
    for spare in plots[count:]:
        spare.set_axis_off()
    return figure, plots[:count]


def _numbers(axes: Axes, values: Array, top: float, middle: float = 0) -> None:
    for row, column in np.ndindex(*values.shape):
        value = values[row, column]
        if np.isfinite(value):
            ink = "white" if abs(value - middle) > 0.75 * top else "#101215"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6.2, color=ink)


def label(axes: Axes, tasks: list[str], left: bool = True) -> None:
    axes.set_xticks(range(len(tasks)), tasks, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(tasks)), tasks if left else [""] * len(tasks))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def smoothness(run: Run) -> Figure | None:
    """The bound L C (1+ε) of a task's loss gap against that gap, in each of the task's pairs."""
    known = {
        name: found for name in run.results.names("smoothness") if (found := bounds(run, name)) is not None
    }
    if not known:
        return None
    with style.settings():
        columns, rows = min(len(known), WIDE), -(-len(known) // WIDE)
        figure = Figure(figsize=(style.PAGE, 3.7 * rows))
        plots = list(np.asarray(figure.subplots(rows, columns, squeeze=False)).ravel())
        for spare in plots[len(known) :]:
            spare.set_axis_off()
        for axes, (name, found) in zip(plots, known.items(), strict=False):
            bound, gap = found["bound"].to_numpy(), found["gap"].to_numpy()
            tint = style.colour(name, run.regimes)
            axes.scatter(bound, gap, s=22, color=tint, alpha=0.65, linewidths=0)
            axes.axhline(0, color=style.FAINT, linewidth=0.8)
            if gap.max() > 0.2 * bound.min():  # else the line on which the bound is reached is out of sight
                ends = np.array([bound.min(), bound.max()])
                axes.plot(ends, ends, "--", color=style.INK, linewidth=0.8)
            style.logarithmic(axes)
            axes.set(xlabel="bound L C (1+ε)", ylabel="loss gap at α = ½")
            rank = rank_correlation(bound, gap)
            tight = found["tightness"].median()
            axes.set_title(f"{name}\nrank corr. {rank:.2f}, median gap/bound {tight:.2g}")
            style.grid(axes, "both")
    return figure
