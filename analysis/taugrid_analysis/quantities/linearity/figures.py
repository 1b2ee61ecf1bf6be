# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity: curves over layers beside their baselines, histograms of the coefficient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.page import style
from taugrid_analysis.run.frames.layers import last_layer, near_half
from taugrid_analysis.run.opened import Run

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


def chosen_pairs(frame: pd.DataFrame, most: int = SHOWN) -> list[str]:
    """From the least to the largest error, evenly between them."""
    order = near_half(frame).groupby("pair", sort=False)["error"].mean().sort_values(kind="stable")
    places = np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(int)
    return [str(order.index[place]) for place in places]


def pairs(run: Run, regime: str, most: int = SHOWN) -> Figure | None:
    """The paper's figure 2, and of most = 6 figures 13 and 15: bands from quartile to quartile.

    The encoder's output is left out.
    """
    data, frame = run.data("linearity", regime), _of(run, regime)
    if data is None or frame.empty:
        return None
    frame = frame[frame["layer"] < last_layer(data)]
    if frame.empty:
        return None
    chosen = chosen_pairs(frame, most)
    with style.settings():
        plots = _plots(len(chosen))
        for axes, pair in zip(plots.axes, chosen, strict=True):
            by_layer(axes, frame[frame["pair"] == pair], "cosine", "baseline")
            mark_decoder(axes, data)
            axes.set(title=pair, xlabel="layer")
        for axes in plots.axes[::SHOWN]:
            axes.set_ylabel("1 − cosine")
        plots.axes[-1].legend(loc="best", fontsize=7)
    return plots


def _plots(count: int) -> Figure:
    """So many plots, as many in a line as figure 2 has."""
    lines, width = -(-count // SHOWN), min(count, SHOWN)
    figure = Figure(figsize=(style.PAGE, 3.4 * lines))
    for place in range(count):
        figure.add_subplot(lines, width, place + 1, sharey=figure.axes[0] if figure.axes else None)
    return figure


def coefficients(run: Run, regime: str, last: int = SHOWN) -> Figure | None:
    """The paper's figure 3: the coefficient's distribution in last stages, of the same pairs, at α = ½."""
    data, frame = run.data("linearity", regime), _of(run, regime)
    if data is None or frame.empty:
        return None
    return _coefficients(run, data, chosen_pairs(frame), [_half(data)], stages(run, data, last))


def every_coefficient(run: Run, regime: str) -> Figure | None:
    """The paper's figures 14 and 16: of all stages and of every α, a line a pair."""
    data, frame = run.data("linearity", regime), _of(run, regime)
    if data is None or frame.empty:
        return None
    every = range(data.sizes["alpha"])
    return _coefficients(
        run, data, chosen_pairs(frame, 2 * SHOWN), every, stages(run, data, len(data["layer"]))
    )


def _half(data: xr.Dataset) -> int:
    return int(np.argmin(np.abs(data["alpha"].to_numpy() - 0.5)))


def _coefficients(
    run: Run, data: xr.Dataset, chosen: Sequence[str], weights: Sequence[int], shown: list[int]
) -> Figure | None:
    """Draws a plot a pair in a line for one α; for several a line a pair, a plot an α."""
    names = [run.results.pair_name(pair) for pair in range(len(run.results.pairs))]
    several = len(weights) > 1
    shape = (len(chosen), len(weights)) if several else (1, len(chosen))
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 2.2 * shape[0] + 1.2))
        grid = np.asarray(figure.subplots(*shape, sharey=True, squeeze=False))
        for place, pair in enumerate(chosen):
            for column, weight in enumerate(weights):
                axes = grid[place, column] if several else grid[0, place]
                counts = data["coefficient_histogram"].to_numpy()[names.index(pair), :, weight]
                if not distribution(axes, data, counts, shown):
                    return None
                alpha = f", α = {float(data['alpha'][weight]):g}" if several else ""
                axes.set_title(f"{pair}{alpha}", fontsize=8 if several else None)
                if several and place + 1 < len(chosen):
                    axes.set_xlabel("")
        for axes in grid[:, 0]:
            axes.set_ylabel("part of the points")
        grid[0, -1].legend(loc="best", fontsize=7)
    return figure


def stages(run: Run, data: xr.Dataset, last: int) -> list[int]:
    """Rows of the last stages that were measured; of a perceptron the first layer is one of them.

    Where a model has a decoder, half of them of the encoder and half of the decoder.
    """
    model = run.results.model()
    first = 0 if model is not None and model.architecture == "MLP" else 1
    of_stages = range(first, last_layer(data))
    rows = [row for row, layer in enumerate(data["layer"].to_numpy()) if int(layer) in of_stages]
    begin = data.attrs.get("first_decoder_layer")
    if begin is None:
        return rows[-last:]
    decoder = [row for row in rows if int(data["layer"][row]) >= int(begin)]
    encoder = [row for row in rows if row not in decoder]
    return encoder[-(last // 2) :] + decoder[-(last // 2) :]


def mark_decoder(axes: Axes, data: xr.Dataset) -> None:
    """A line between an encoder's last layer and its decoder's first."""
    begin = data.attrs.get("first_decoder_layer")
    if begin is not None:
        axes.axvline(float(begin) - 0.5, color=style.FAINT, linestyle=":", linewidth=1, label="decoder")


def distribution(axes: Axes, data: xr.Dataset, counts: Array, shown: list[int]) -> bool:
    """The coefficient's histograms [layer, bin] in these rows of layers; whether there is one."""
    edges = np.asarray(data.attrs["coefficient_edges"], dtype=float)
    if not shown:
        return False
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


def averages(run: Run, regime: str, quantities: Sequence[str], last: int) -> Figure | None:
    """The paper's figures 5, 6, 17 and 18, of averages of several models: a column a data set.

    quantities: cosine, beside its baseline, and coefficient, a line each.
    """
    data, frame = run.data("layer_averages", regime), run.layer_averages
    if data is None or frame.empty:
        return None
    frame, shown = frame[frame["regime"] == regime], stages(run, data, last)
    named = list(frame["data"].unique())[:SHOWN]
    with style.settings():
        figure = Figure(figsize=(max(4.2, 3.6 * len(named)), 3.4 * len(quantities)))
        grid = np.asarray(figure.subplots(len(quantities), len(named), sharey="row", squeeze=False))
        for line, quantity in zip(grid, quantities, strict=True):
            for column, (axes, name) in enumerate(zip(line, named, strict=True)):
                mine = frame[(frame["data"] == name) & frame["layer"].isin(data["layer"].to_numpy()[shown])]
                if quantity == "coefficient":
                    if not distribution(axes, data, data["coefficient_histogram"].to_numpy()[column], shown):
                        return None
                else:
                    count = int(mine["models"].iloc[0])
                    _curve(axes, mine, "cosine", ALPHA_COLOURS[0], f"average of {count}")
                    _curve(axes, mine, "baseline", BASELINE, "average against each", "--")
                    axes.set(yscale="log", xlabel="layer")
                    style.grid(axes)
                axes.set_title(name)
            line[0].set_ylabel("part of the points" if quantity == "coefficient" else "1 − cosine")
            line[-1].legend(loc="best", fontsize=7)
    return figure


def _of(run: Run, regime: str) -> pd.DataFrame:
    frame = run.layers
    return frame[frame["regime"] == regime] if not frame.empty else frame
