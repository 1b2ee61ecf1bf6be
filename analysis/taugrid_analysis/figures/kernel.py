# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The NTK's local energy: point by point, and as shares."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis import measures
from taugrid_analysis.figures import style, tasks
from taugrid_analysis.records import Array
from taugrid_analysis.results import Results


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
            energy = record.local_energy[task, control]
            _points(points, energy, results.tasks[task], results.tasks[control], "the pair of median share")
            image = shares.imshow(share, cmap=style.SIGNED_MAP, vmin=0, vmax=1, interpolation="none")
            for row, column in np.ndindex(*share.shape):
                if np.isfinite(share[row, column]):
                    level = share[row, column]
                    ink = "white" if abs(level - 0.5) > 0.36 else "#101215"
                    shares.text(column, row, f"{level:.2f}", ha="center", va="center", fontsize=7, color=ink)
            tasks.label(shares, results.tasks)
            shares.set(
                xlabel="control task", ylabel="trained task", title=f"{start}: own share of the energy"
            )
            figure.colorbar(image, ax=shares, shrink=0.85, pad=0.02).outline.set_visible(False)
    return figure


def _median_pair(share: Array) -> tuple[int, int]:
    ordered = ordered_pairs(share)
    return ordered[(len(ordered) - 1) // 2]


def ordered_pairs(share: Array) -> list[tuple[int, int]]:
    """(trained, control), from the least own share to the largest."""
    flat = np.argsort(np.where(np.isfinite(share), share, np.inf), axis=None)[: np.isfinite(share).sum()]
    places = (np.unravel_index(place, share.shape) for place in flat)
    return [(int(row), int(column)) for row, column in places]


def energies(results: Results, start: str, chosen: list[tuple[int, int]]) -> Figure | None:
    """Point by point, for these (trained, control)."""
    record = results.ntk(start)
    if record is None:
        return None
    share = measures.own_share(record.local_energy)
    with style.settings():
        figure = Figure(figsize=(11.0 if len(chosen) > 1 else 6.0, 3.4))
        for axes, (task, control) in zip(
            np.atleast_1d(np.asarray(figure.subplots(1, len(chosen)))), chosen, strict=True
        ):
            title = f"own share {share[task, control]:.2f}"
            energy = record.local_energy[task, control]
            _points(axes, energy, results.tasks[task], results.tasks[control], title)
    return figure


def _points(axes: Axes, energy: Array, task: str, control: str, title: str) -> None:
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
    axes.set_title(f"{title}\n")
    style.grid(axes)
