# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Disentanglement error: the grids of all pairs, and ξ along the diagonal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from taugrid_analysis.numbers import means
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.page import style
from taugrid_analysis.quantities.disentanglement import xi
from taugrid_analysis.run.opened import Run


def grids(run: Run) -> dict[str, xr.Dataset]:
    """The grids of every regime that has a number in them, each pair as in `earlier_later`."""
    datasets = {name: run.data("disentanglement", name) for name in run.results.names("disentanglement")}
    return {
        name: xi.earlier_first(grid, run.results.pairs)
        for name, grid in datasets.items()
        if grid is not None and np.isfinite(grid["error"]).any()
    }


def earlier_later(run: Run) -> list[tuple[int, int]]:
    """The tasks of every pair, the one that the run lists earlier first."""
    return [(int(first), int(second)) for first, second in np.sort(run.results.pairs, axis=1)]


def upper(datasets: dict[str, xr.Dataset]) -> tuple[float, float]:
    """The top of the common colour scale, and the share of cells above it.

    Two disagreements sum to 2 at most; where fewer than 1 % of cells exceed 1 the scale ends there.
    """
    values = np.concatenate([grid["error"].to_numpy().ravel() for grid in datasets.values()])
    values = values[np.isfinite(values)]
    if not values.size:
        return 1.0, 0.0
    if any(not xi.is_share(grid) for grid in datasets.values()):
        return float(np.quantile(values, 0.99)) or 1.0, 0.01
    above = float((values > 1).mean())
    return (1.0, above) if above < 0.01 else (2.0, 0.0)


def panel(axes: Axes, error: Array, alpha: Array, top: float, outline: float = 0.9) -> None:
    """One grid: rows are the vertical axis' α, columns the horizontal one's; [0,1]² outlined."""
    half = np.diff(alpha) / 2
    edges = np.concatenate([[alpha[0] - half[0]], alpha[:-1] + half, [alpha[-1] + half[-1]]])
    if np.allclose(half, half[0]):
        box = (edges[0], edges[-1], edges[0], edges[-1])
        axes.imshow(
            error,
            origin="lower",
            extent=box,
            cmap=style.ERROR_MAP,
            vmin=0,
            vmax=top,
            interpolation="none",
            aspect="auto",
        )
    else:
        axes.pcolormesh(edges, edges, error, cmap=style.ERROR_MAP, vmin=0, vmax=top, rasterized=True)
    axes.add_patch(Rectangle((0, 0), 1, 1, fill=False, edgecolor=style.RED, linewidth=outline))
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(edges[0], edges[-1])
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _ticks(axes: Axes, alpha: Array) -> None:
    low, high = int(np.ceil(alpha[0])), int(np.floor(alpha[-1]))
    marks = [low, 0, 1, high] if low < 0 and high > 1 else [low, high]
    axes.set_xticks(marks)
    axes.set_yticks(marks)
    axes.tick_params(length=2, pad=1.5)


def triangle(run: Run, regime: str, grid: xr.Dataset, top: float, clipped: bool) -> Figure:
    """Task below task: the panel in row i, column j < i is the pair (j, i); top right the mean."""
    tasks = run.results.tasks
    count = len(tasks)
    error, alpha = grid["error"].to_numpy(), grid["alpha_1"].to_numpy()
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 9.6))
        figure.set_layout_engine("none")
        left, bottom, right, high, gap = 0.105, 0.035, 0.995, 0.995, 0.008
        wide, tall = (right - left) / (count - 1), (high - bottom) / (count - 1)
        for pair, (first, second) in enumerate(earlier_later(run)):
            row, column = second - 1, first
            axes = figure.add_axes(
                (left + column * wide, high - (row + 1) * tall, wide - gap, tall - gap),
                label=f"pair-{first}-{second}",
            )
            panel(axes, error[pair].T, alpha, top)
            axes.set_gid(f"{style.MAP}xi/{regime}/{pair}")
            if column == 0:
                axes.set_ylabel(tasks[second], rotation=0, ha="right", va="center", labelpad=7)
            if second == count - 1:
                axes.set_xlabel(tasks[first], labelpad=5)
        if count > 3:
            _corner(figure, regime, grid, top, clipped, len(run.results.pairs))
    return figure


def _corner(figure: Figure, regime: str, grid: xr.Dataset, top: float, clipped: bool, pairs: int) -> None:
    size = 0.26
    axes = figure.add_axes((0.635, 0.675, size, size * 11.0 / 9.6), label="mean")
    alpha = grid["alpha_1"].to_numpy()
    panel(axes, means.mean_of_finite(grid["error"].to_numpy(), 0).T, alpha, top, outline=1.6)
    axes.set_gid(f"{style.MAP}xi/{regime}/{pairs}")
    _ticks(axes, alpha)
    axes.set_title(f"{regime}: mean over {pairs} pairs")
    axes.set_xlabel(r"α of the column's task", labelpad=2)
    axes.set_ylabel(r"α of the row's task", labelpad=0)
    bar_axes = figure.add_axes((0.925, 0.675, 0.014, size * 11.0 / 9.6), label="scale")
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, top), style.ERROR_MAP),
        cax=bar_axes,
        extend="max" if clipped else "neither",
    )
    bar.outline.set_visible(False)
    bar_axes.set_title("ξ")
    bar_axes.tick_params(length=2)


def matched(run: Run) -> Figure | None:
    """ξ(α,α), mean over pairs with quartiles: against α, and against the length of the step."""
    datasets = grids(run)
    known = {name: data for name in datasets if (data := run.data("similarity", name)) is not None}
    common = xi.matched_norm(datasets, known, run.results.pairs)
    if not datasets:
        return None
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 3.7))
        equal, norm = figure.subplots(1, 2, sharey=True)
        for name, grid in datasets.items():
            alpha, values = xi.diagonal(grid)
            _band(equal, alpha, values, name, run.regimes)
        equal.set(xlabel="α", ylabel="ξ(α,α)", title="At equal α", xlim=(0, None), ylim=(0, None))
        if len(datasets) <= 4:
            equal.legend(loc="upper left")
        if common is None:
            norm.text(0.5, 0.5, "no norms: /similarity is absent", ha="center", transform=norm.transAxes)
        else:
            for name, error in common.error.items():
                _band(norm, common.length, error, name, run.regimes)
            norm.set_xlim(0, float(common.length[-1]))
        norm.set(xlabel="α · ½(‖τ₁‖+‖τ₂‖)", title="At matched norm")
        for axes in (equal, norm):
            style.grid(axes)
        if len(datasets) > 4:
            norm.legend(*equal.get_legend_handles_labels(), loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


@dataclass(frozen=True)
class Cell:
    """One pair's grid; `variable` is which of its errors."""

    run: Run
    grid: xr.Dataset
    pair: int
    variable: str = "error"

    @property
    def scale(self) -> str:
        """Cells of one kind share a colour scale."""
        return "share" if xi.is_share(self.grid) else self.variable


NAMES = {"share": "ξ", "error": "KL, nat", "symmetric_error": "½ symmetric KL, nat"}


def examples(rows: list[tuple[str, list[Cell]]], columns: list[str]) -> Figure:
    """Single pairs' grids under headings; a colour scale for each kind of error."""
    grids_of: dict[str, dict[str, tuple[xr.Dataset, str]]] = {}
    for _, cells in rows:
        for cell in cells:
            grids_of.setdefault(cell.scale, {})[str(id(cell.grid))] = (cell.grid, cell.variable)
    tops = {
        kind: upper({key: grid.assign(error=grid[variable]) for key, (grid, variable) in entries.items()})
        for kind, entries in grids_of.items()
    }
    with style.settings():
        figure = Figure(figsize=(2.0 + 2.6 * len(columns), 0.6 + 2.45 * len(rows)))
        plots = np.asarray(figure.subplots(len(rows), len(columns), squeeze=False))
        for line, (title, cells) in zip(plots, rows, strict=True):
            kind = cells[0].scale
            top, above = tops[kind]
            for axes, cell in zip(line, cells, strict=True):
                alpha = cell.grid["alpha_1"].to_numpy()
                panel(axes, cell.grid[cell.variable].to_numpy()[cell.pair].T, alpha, top, outline=1.4)
                _ticks(axes, alpha)
                axes.set_box_aspect(1)
                first, second = (cell.run.results.tasks[task] for task in cell.run.results.pairs[cell.pair])
                axes.set_xlabel(f"α of {first}", labelpad=1)
                axes.set_ylabel(f"α of {second}", labelpad=1)
            beside = {"xycoords": "axes fraction", "ha": "center", "va": "center", "rotation": 90}
            regimes = cells[0].run.regimes
            tint = style.colour(title, regimes) if title in regimes else style.INK
            line[0].annotate(title, (-0.34, 0.5), color=tint, fontweight="bold", **beside)
            scale = ScalarMappable(Normalize(0, top), style.ERROR_MAP)
            end = "max" if above > 0 else "neither"
            bar = figure.colorbar(scale, ax=list(line), extend=end, shrink=0.85, pad=0.02)
            bar.outline.set_visible(False)
            bar.set_label(NAMES[kind])
        for axes, heading in zip(plots[0], columns, strict=True):
            axes.set_title(heading)
    return figure


def _band(axes: Axes, x: Array, values: Array, name: str, regimes: list[str]) -> None:
    tint = style.colour(name, regimes)
    low, high = np.nanquantile(values, [0.25, 0.75], axis=0)
    axes.fill_between(x, low, high, color=tint, alpha=0.16, linewidth=0)
    axes.plot(x, np.nanmean(values, axis=0), color=tint, label=name)
