# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity: curves over layers beside their baselines, histograms of the coefficient."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis.figures import style
from taugrid_analysis.frames.layers import near_half
from taugrid_analysis.run import Run

SHOWN = 3  # pairs of a figure, and last layers of a histogram
ALPHA_COLOURS = ("#2a7fba", "#d9632a", "#2f9e78", "#8a63b8", "#a38a1e")
BASELINE = "#8b93a0"
FLOOR = 1e-9  # of 1 − cosine on a logarithmic axis


def curves(run: Run) -> Figure | None:
    """A column a regime: 1 − cosine, centred, and the error, means over pairs with the mean quartiles."""
    frame = run.layers
    if frame.empty:
        return None
    regimes = list(frame["regime"].unique())
    with style.settings():
        figure = Figure(figsize=(min(style.PAGE, 1.5 + 3.2 * len(regimes)), 7.5))
        grid = np.asarray(figure.subplots(3, len(regimes), sharex="col", sharey="row", squeeze=False))
        for column, regime in enumerate(regimes):
            mine = frame[frame["regime"] == regime]
            by_layer(grid[0, column], mine, "cosine", "baseline")
            by_layer(grid[1, column], mine, "centred_cosine", "centred_baseline")
            errors(grid[2, column], mine)
            grid[0, column].set_title(regime)
            grid[2, column].set_xlabel("layer")
        for row, label in enumerate(("1 − cosine", "1 − centred cosine", "‖u − v‖ / ‖f₁ − f₂‖")):
            grid[row, 0].set_ylabel(label)
        grid[0, -1].legend(loc="best", fontsize=7)
    return figure


def by_layer(axes: Axes, frame: pd.DataFrame, name: str, baseline: str, axis: str = "alpha") -> None:
    """1 − cosine of every α, and of the baseline, over layers; of rows of one λ where that is the axis."""
    sign, start = ("α", near_half(frame)) if axis == "alpha" else ("λ", frame)
    for place, (weight, rows) in enumerate(frame.groupby(axis)):
        colour = ALPHA_COLOURS[place % len(ALPHA_COLOURS)]
        _curve(axes, rows, name, colour, f"{sign} = {weight:g}")
    _curve(axes, start, baseline, BASELINE, "f(θ₁) against f(θ₂)", "--")
    axes.set_yscale("log")
    style.grid(axes)


def _curve(axes: Axes, rows: pd.DataFrame, name: str, colour: str, label: str, line: str = "-") -> None:
    means = rows.groupby("layer")[[name, f"{name}_lower", f"{name}_upper"]].mean()
    x = means.index.to_numpy()
    mean, lower, upper = (np.maximum(1 - means[column].to_numpy(), FLOOR) for column in means)
    axes.plot(x, mean, line, color=colour, label=label, marker="o", markersize=3)
    axes.fill_between(x, upper, lower, color=colour, alpha=0.15, linewidth=0)
    axes.set_xticks(x)


def errors(axes: Axes, frame: pd.DataFrame) -> None:
    for place, (_, rows) in enumerate(frame.groupby("alpha")):
        means = rows.groupby("layer")[["error", "error_lower", "error_upper"]].mean()
        colour = ALPHA_COLOURS[place % len(ALPHA_COLOURS)]
        axes.plot(means.index, means["error"], color=colour, marker="o", markersize=3)
        axes.fill_between(
            means.index, means["error_lower"], means["error_upper"], color=colour, alpha=0.15, linewidth=0
        )
    axes.set_ylim(bottom=0)
    style.grid(axes)


def chosen_pairs(frame: pd.DataFrame) -> list[str]:
    """Of the least, the median and the largest error."""
    order = near_half(frame).groupby("pair", sort=False)["error"].mean().sort_values(kind="stable")
    places = np.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().astype(int)
    return [str(order.index[place]) for place in places]


def pairs(run: Run, regime: str) -> Figure | None:
    """The paper's figure 2: three pairs, the encoder's output left out, bands from quartile to quartile."""
    data, frame = run.data("linearity", regime), _of(run, regime)
    if data is None or frame.empty:
        return None
    frame = frame[frame["layer"] < int(data.attrs["last_layer"])]
    if frame.empty:
        return None
    chosen = chosen_pairs(frame)
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 3.4))
        for axes, pair in zip(
            np.atleast_1d(figure.subplots(1, len(chosen), sharey=True)), chosen, strict=True
        ):
            by_layer(axes, frame[frame["pair"] == pair], "cosine", "baseline")
            axes.set(title=pair, xlabel="layer")
        figure.axes[0].set_ylabel("1 − cosine")
        figure.axes[-1].legend(loc="best", fontsize=7)
    return figure


def coefficients(run: Run, regime: str, last: int = SHOWN) -> Figure | None:
    """The paper's figure 3: the coefficient's distribution in last stages, of the same pairs, at α = ½."""
    data, frame = run.data("linearity", regime), _of(run, regime)
    if data is None or frame.empty:
        return None
    chosen = chosen_pairs(frame)
    names = [run.results.pair_name(pair) for pair in range(len(run.results.pairs))]
    alpha = int(np.argmin(np.abs(data["alpha"].to_numpy() - 0.5)))
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 3.4))
        for axes, pair in zip(
            np.atleast_1d(figure.subplots(1, len(chosen), sharey=True)), chosen, strict=True
        ):
            if not distribution(axes, data, names.index(pair), alpha, stages(run, data, last)):
                return None
            axes.set_title(pair)
        figure.axes[0].set_ylabel("part of the points")
        figure.axes[-1].legend(loc="best", fontsize=7)
    return figure


def stages(run: Run, data: xr.Dataset, last: int) -> list[int]:
    """Rows of the last stages that were measured; of a perceptron the first layer is one of them."""
    model = run.results.model()
    first = 0 if model is not None and model.architecture == "MLP" else 1
    of_stages = range(first, int(data.attrs["last_layer"]))
    return [row for row, layer in enumerate(data["layer"].to_numpy()) if int(layer) in of_stages][-last:]


def distribution(axes: Axes, data: xr.Dataset, row: int, weight: int, shown: list[int]) -> bool:
    """The coefficient's histogram in these rows of layers; whether there is one."""
    edges = np.asarray(data.attrs["coefficient_edges"], dtype=float)
    if not shown:
        return False
    counts = data["coefficient_histogram"].to_numpy()[row, :, weight]
    for place, layer in enumerate(shown):
        part = counts[layer] / max(1, counts[layer].sum())
        label = f"layer {int(data['layer'][layer])}"
        axes.stairs(part, edges, color=style.KIND_COLOURS[place % 8], fill=True, alpha=0.35, label=label)
    used = np.flatnonzero(counts[shown].sum(axis=0))
    low, high = (edges[used[0]], edges[used[-1] + 1]) if len(used) else (1, 1)
    axes.set(xlabel="coefficient", xlim=(min(0.9, low), max(1.1, high)))
    axes.axvline(1, color=style.INK, linewidth=0.7)
    style.grid(axes)
    return True


def _of(run: Run, regime: str) -> pd.DataFrame:
    frame = run.layers
    return frame[frame["regime"] == regime] if not frame.empty else frame
