# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The NTK's local energy: histograms over points, as paper 1 has them, and shares beside their null."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.means import mean
from taugrid_analysis.page import matrices, style
from taugrid_analysis.quantities.ntk.shares import null_share, own_share
from taugrid_analysis.run.opened import Run

TRAINED, CONTROL, NULL = "#b8431a", "#1f5f9e", "#8a8f98"
BINS = 16


def local_energy(run: Run) -> Figure | None:
    """Left: histogram of the energy for a typical pair. Right: the trained task's share less its null.

    Without a null the share itself, in colours that have no middle: no share is known to mean nothing.
    """
    starts = run.results.names("ntk")
    if not starts:
        return None
    names = run.results.tasks
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 4.5 * len(starts)))
        rows = np.atleast_2d(np.asarray(figure.subplots(len(starts), 2, width_ratios=[1.15, 1])))
        for (points, shares), start in zip(rows, starts, strict=True):
            data = run.data("ntk", start)
            assert data is not None
            share, null = own_share(data["local_energy"].to_numpy()), null_share(data)
            chosen = median_pair(share)
            if chosen is None:
                continue
            task, control = chosen
            _histogram(points, data, task, control, names, "the pair of median share")
            shown = share if null is None else share - null[0][:, None]
            top = 1.0 if null is None else max(0.05, float(np.nanmax(np.abs(shown))))
            low = 0.0 if null is None else -top
            colours = style.ERROR_MAP if null is None else style.SIGNED_MAP
            image = shares.imshow(shown, cmap=colours, vmin=low, vmax=top, interpolation="none")
            for row, column in np.ndindex(*shown.shape):
                if np.isfinite(shown[row, column]):
                    level = (shown[row, column] - low) / (top - low)
                    if null is None:
                        ink = style.ink_on(float(level))
                    else:
                        ink = "white" if abs(level - 0.5) > 0.36 else "#101215"
                    text = f"{shown[row, column]:.2f}"
                    shares.text(column, row, text, ha="center", va="center", fontsize=7, color=ink)
            shares.set_gid(f"{style.MAP}ntk/{start}")
            matrices.label(shares, names)
            what = "own share of the energy, null not measured" if null is None else "own share − its null"
            shares.set(xlabel="control task", ylabel="trained task", title=f"{start}: {what}")
            figure.colorbar(image, ax=shares, shrink=0.85, pad=0.02).outline.set_visible(False)
    return figure


def ordered_pairs(share: Array) -> list[tuple[int, int]]:
    """(trained, control), from the least own share to the largest."""
    flat = np.argsort(np.where(np.isfinite(share), share, np.inf), axis=None)[: np.isfinite(share).sum()]
    places = (np.unravel_index(place, share.shape) for place in flat)
    return [(int(row), int(column)) for row, column in places]


def median_pair(share: Array) -> tuple[int, int] | None:
    """(trained, control) of the median own share; None where nothing was measured."""
    ordered = ordered_pairs(share)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def energies(run: Run, start: str, chosen: list[tuple[int, int]]) -> Figure | None:
    """Histograms for these (trained, control)."""
    data = run.data("ntk", start)
    if data is None:
        return None
    share, null = own_share(data["local_energy"].to_numpy()), null_share(data)
    with style.settings():
        figure = Figure(figsize=(style.PAGE if len(chosen) > 1 else 6.0, 3.8))
        for axes, (task, control) in zip(
            np.atleast_1d(np.asarray(figure.subplots(1, len(chosen)))), chosen, strict=True
        ):
            title = f"own share {share[task, control]:.2f}"
            if null is not None:
                title += f", null {null[0][task]:.2f}"
            _histogram(axes, data, task, control, run.results.tasks, title)
    return figure


def parts(data: xr.Dataset, task: int, control: int, names: list[str]) -> list[tuple[Floats, str, str]]:
    """Σφ² at each point, mean over logits, with a name and a colour.

    The trained task's points, the control's, and of every draw of the null its second sample's.
    """
    level = _over_logits(data["local_energy"].to_numpy()[task, control])
    half = len(level) // 2
    series = [
        (level[:half], f"{names[task]} (trained)", TRAINED),
        (level[half:], f"{names[control]} (control)", CONTROL),
    ]
    if "null_energy" in data:
        null = data["null_energy"].transpose("task", "draw", "logit", "both_points").to_numpy()[task]
        drawn = np.concatenate([_over_logits(draw)[half:] for draw in null])
        series.append((drawn, f"{names[task]}, other points (null)", NULL))
    return series


def _histogram(axes: Axes, data: xr.Dataset, task: int, control: int, names: list[str], title: str) -> None:
    shown = parts(data, task, control, names)
    every = np.concatenate([values for values, _, _ in shown])
    edges = np.linspace(0.0, float(np.nanmax(every, initial=1e-9)) * 1.001, BINS + 1).tolist()
    for values, name, tint in shown:
        weights = np.full(len(values), 1 / len(values))
        axes.hist(
            values, edges, weights=weights, color=tint, alpha=0.35, label=f"{name}: mean {mean(values):.2f}"
        )
        axes.hist(values, edges, weights=weights, histtype="step", color=tint, linewidth=1.2)
        axes.axvline(mean(values), color=tint, linewidth=1.2, linestyle="--")
    axes.set(xlabel="local energy Σφ² of a point", ylabel="part of the points", xlim=(0, float(edges[-1])))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=7.5, title=title)
    style.grid(axes)


def _over_logits(energy: Array) -> Floats:
    """Mean over the logits that the task has; the others are NaN."""
    known = np.isfinite(energy).all(axis=1)
    return np.asarray(energy[known].astype(float).mean(axis=0))
