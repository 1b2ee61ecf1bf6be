# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The one picture of a run: every pair's grid, two regimes mirrored, with addition and matched norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from taugrid_analysis.errors import InputError
from taugrid_analysis.page import style
from taugrid_analysis.quantities.addition import figures as addition_figures
from taugrid_analysis.quantities.disentanglement import figures as disentanglement_figures
from taugrid_analysis.quantities.disentanglement import xi
from taugrid_analysis.run.opened import Run


def composite(run: Run) -> Figure:
    """Above the diagonal one regime, below it another (the same again if there is only one)."""
    run.results.need("disentanglement", "grids to draw: run the disentanglement experiment")
    grids = disentanglement_figures.grids(run)
    if not grids:
        raise InputError("holds no finite number", f"{run.path}:/disentanglement", "grids to draw")
    names = list(grids)
    first = "standard" if "standard" in names else names[0]
    second = next((name for name in ("linear", *names) if name in names and name != first), first)
    top, above = disentanglement_figures.upper({name: grids[name] for name in {first, second}})
    with style.settings():
        figure = Figure(figsize=(14.0, 8.6))
        figure.set_layout_engine("none")
        _mirror(figure, run, grids, first, second, top)
        _scale(figure, top, above > 0)
        _diagonals(figure.add_axes((0.735, 0.57, 0.25, 0.34), label="matched"), run, [first, second])
        axes = figure.add_axes((0.735, 0.08, 0.25, 0.36), label="addition")
        shown = [name for name in run.results.names("addition") if name in (first, second)]
        if shown:
            addition_figures.draw_addition(axes, run, thin=False, regimes=shown)
            axes.set_title("Adding all task vectors", loc="left", fontweight="bold")
        else:
            axes.set_axis_off()
    return figure


def _mirror(
    figure: Figure,
    run: Run,
    grids: dict[str, xr.Dataset],
    first: str,
    second: str,
    top: float,
) -> None:
    results = run.results
    count = len(results.tasks)
    upper, lower = grids[first], grids[second]
    left, bottom, wide, tall, gap = 0.03, 0.05, 0.60, 0.86, 0.004
    step_x, step_y = wide / count, tall / count

    def place(row: int, column: int) -> tuple[float, float, float, float]:
        return (
            left + column * step_x,
            bottom + (count - 1 - row) * step_y,
            step_x - gap,
            step_y - gap * 14 / 8.6,
        )

    for pair, (row, column) in enumerate(disentanglement_figures.earlier_later(run)):
        axes = figure.add_axes(place(row, column), label=f"{first}-{row}-{column}")
        disentanglement_figures.panel(axes, upper["error"].to_numpy()[pair], upper["alpha_1"].to_numpy(), top)
        axes = figure.add_axes(place(column, row), label=f"{second}-{row}-{column}")
        disentanglement_figures.panel(
            axes, lower["error"].to_numpy()[pair].T, lower["alpha_1"].to_numpy(), top
        )
    for index, task in enumerate(results.tasks):
        axes = figure.add_axes(place(index, index), label=f"task-{index}")
        axes.set_axis_off()
        name = task.replace("_", "\n").replace("-", "\n")
        axes.text(0.5, 0.5, name, ha="center", va="center", fontweight="bold", fontsize=9.5)
    heading: dict[str, Any] = {"fontsize": 12.5, "fontweight": "bold", "va": "bottom"}
    tint = style.colour(first, run.regimes)
    figure.text(left + wide, 0.925, f"{first} ↗", ha="right", color=tint, **heading)
    tint = style.colour(second, run.regimes)
    figure.text(left, 0.02, f"↙ {second}", ha="left", color=tint, fontsize=12.5, fontweight="bold")
    low, high = upper["alpha_1"].to_numpy()[[0, -1]]
    figure.text(
        left, 0.925, f"Disentanglement error ξ(α₁,α₂), {len(results.pairs)} pairs of tasks", **heading
    )
    note = f"each panel: α of its column's and its row's task, {low:g} to {high:g};  red: [0,1]²"
    figure.text(left + wide, 0.022, note, ha="right", fontsize=9)


def _scale(figure: Figure, top: float, clipped: bool) -> None:
    axes = figure.add_axes((0.637, 0.29, 0.009, 0.38), label="scale")
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, top), style.ERROR_MAP), cax=axes, extend="max" if clipped else "neither"
    )
    bar.set_ticks(np.linspace(0, top, 5).tolist())
    bar.outline.set_visible(False)
    axes.set_title("ξ")
    axes.tick_params(length=2)


def _diagonals(axes: Axes, run: Run, names: list[str]) -> None:
    chosen = {name: grid for name, grid in disentanglement_figures.grids(run).items() if name in names}
    known = {name: data for name in chosen if (data := run.data("similarity", name)) is not None}
    common = xi.matched_norm(chosen, known, run.results.pairs)
    if common is None:
        axes.set_axis_off()
        return
    for name, error in common.error.items():
        tint = style.colour(name, run.regimes)
        low, high = np.nanquantile(error, [0.25, 0.75], axis=0)
        axes.fill_between(common.length, low, high, color=tint, alpha=0.16, linewidth=0)
        axes.plot(common.length, np.nanmean(error, axis=0), color=tint, label=name)
    axes.set(xlabel="α · ½(‖τ₁‖+‖τ₂‖)", ylabel="ξ(α,α)", ylim=(0, None))
    axes.set_xlim(0, float(common.length[-1]))
    axes.set_title("At matched norm: mean and quartiles over pairs", loc="left", fontweight="bold")
    axes.legend(loc="upper left")
    style.grid(axes)
