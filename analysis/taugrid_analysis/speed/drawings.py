# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""History as small multiples; a roofline; scaling as speed-up and efficiency."""

from __future__ import annotations

from datetime import UTC

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from taugrid_analysis.page import style
from taugrid_analysis.speed import history, roofline, scaling
from taugrid_analysis.speed.history import Series

COLUMNS = 3
TIMES = {"wall": "wall time", "longest": "longest rank's units"}


def draw_history(series: list[Series], tolerance: float) -> Figure:
    """A panel a case: medians with the middle half of the repetitions; a mark on a last one that left."""
    cases = list(dict.fromkeys(curve.case for curve in series))
    where = history.places(series)
    columns = min(COLUMNS, len(cases))
    rows = -(-len(cases) // columns)
    tints = [style.KIND_COLOURS[index % len(style.KIND_COLOURS)] for index in range(len(where))]
    with style.settings(), mpl.rc_context({"date.converter": "concise"}):
        figure = Figure(figsize=(11.0, 0.6 + 2.1 * rows))
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
        for axes, case in zip(panels, cases, strict=False):
            for curve in (curve for curve in series if curve.case == case):
                _line(axes, curve, tints[where.index(curve.place)], tolerance)
            axes.set_title(case, loc="left")
            axes.set_ylim(bottom=0)
            axes.margins(x=0.08)
            style.grid(axes)
        for axes in panels[len(cases) :]:
            axes.set_visible(False)
        for axes in panels[max(0, len(cases) - columns) : len(cases)]:
            axes.tick_params(labelbottom=True)  # where the panel below is empty too
        for row in range(rows):
            panels[columns * row].set_ylabel("ms")
        if len(where) > 1:
            names = [f"machine {number}: {place[0]}" for number, place in enumerate(where, 1)]
            handles = [panels[0].plot([], [], color=tint)[0] for tint in tints]
            figure.legend(handles, names, loc="outside lower center", ncols=min(4, len(where)))
    return figure


def _line(axes: Axes, curve: Series, tint: str, tolerance: float) -> None:
    naive = [point.date.astimezone(UTC).replace(tzinfo=None) for point in curve.points]
    dates = np.array(naive, dtype="datetime64[s]")
    values = 1e3 * np.array([np.quantile(point.seconds, [0.25, 0.5, 0.75]) for point in curve.points])
    axes.vlines(dates, values[:, 0], values[:, 2], color=tint, alpha=0.4, linewidth=3)
    axes.plot(dates, values[:, 1], color=tint, marker="o", markersize=3.5, linewidth=1.2)
    mark = curve.mark(tolerance)
    if mark in ("slower", "faster"):
        ratio = curve.points[-1].median / curve.earlier
        axes.plot(dates[-1], values[-1, 1], "o", color=style.RED if mark == "slower" else tint, markersize=8)
        axes.annotate(
            f"×{ratio:.2f}", (dates[-1], values[-1, 1]), (-4, -18), textcoords="offset points", ha="right"
        )
        axes.axhline(1e3 * curve.earlier, color=tint, linestyle=":", linewidth=1)


def draw_roofline(roof: roofline.Roof) -> Figure:
    """Left: both ceilings with each case at its flops a byte, by the model and, hollow, by counted traffic.
    Right: each case's share of what its place under them allows."""
    names = list(roof.cases)
    cases = [roof.cases[name] for name in names]
    intensity = np.array([case.flops / case.bytes for case in cases])
    rate = np.array([case.flops / roofline.seconds(case) for case in cases])
    counted = np.array([case.flops / case.memory_bytes for case in cases])
    shares = np.array([max(case.share_of_products, case.share_of_triad) for case in cases])
    tints = [style.KIND_COLOURS[0] if bound else style.KIND_COLOURS[1] for bound in intensity < roof.ridge]
    with style.settings():
        figure = Figure(figsize=(11.0, max(4.0, 0.6 + 0.2 * len(names))))
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        span = np.concatenate([intensity, counted[np.isfinite(counted)], [roof.ridge]])
        ends = np.array([span.min() / 2, roof.ridge, span.max() * 2])
        left.plot(ends, np.minimum(roof.flops, roof.bytes * ends) / 1e9, color=style.UNKNOWN, linewidth=1.4)
        left.annotate(
            f"{roof.flops / 1e9:.0f} Gflop/s",
            (ends[2], roof.flops / 1e9),
            (0, 4),
            textcoords="offset points",
            ha="right",
        )
        left.annotate(
            f"{roof.bytes / 1e9:.0f} GB/s",
            (ends[0], roof.bytes * ends[0] / 1e9),
            (12, 0),
            textcoords="offset points",
            ha="left",
        )
        left.hlines(
            rate / 1e9, np.where(np.isfinite(counted), counted, intensity), intensity, color=style.FAINT
        )
        left.scatter(counted, rate / 1e9, s=16, facecolors="none", edgecolors=tints, linewidths=1)
        left.scatter(intensity, rate / 1e9, s=16, color=tints)
        left.set(xscale="log", yscale="log", xlabel="flop/byte", ylabel="Gflop/s")
        style.grid(left, "both")
        order = np.argsort(shares)
        places = np.arange(len(names))
        right.barh(places, 100 * shares[order], color=[tints[index] for index in order], height=0.6)
        right.set_yticks(places, [names[index] for index in order])
        right.set(xlabel="% of what the ceilings allow", ylim=(-0.6, len(names) - 0.4))
        right.axvline(100, color=style.UNKNOWN, linestyle="--", linewidth=1)
        style.grid(right, "x")
        for tint, bound in zip(style.KIND_COLOURS[:2], ("memory", "products"), strict=True):
            left.plot([], [], "o", color=tint, markersize=4, label=f"bound by {bound}")
        left.legend(loc="lower right")
    return figure


def draw_scaling(points: list[scaling.Point], weak: bool) -> Figure:
    """Left: speed-up against the ideal (strong) or times (weak); right: efficiency."""
    ranks = [point.ranks for point in points]
    with style.settings():
        figure = Figure(figsize=(9.0, 3.4))
        left, right = figure.subplots(1, 2)
        for (name, title), tint in zip(TIMES.items(), style.KIND_COLOURS, strict=False):
            values = (
                [float(getattr(point, name)) for point in points] if weak else scaling.speed_ups(points, name)
            )
            left.plot(ranks, values, color=tint, marker="o", label=title)
            right.plot(ranks, scaling.efficiencies(points, name, weak), color=tint, marker="o", label=title)
        if weak:
            left.set(ylabel="seconds", ylim=(0, 1.1 * max(point.wall for point in points)))
        else:
            left.plot(
                ranks, [r / ranks[0] for r in ranks], color=style.UNKNOWN, linestyle="--", label="ideal"
            )
            left.set_yscale("log", base=2)
            left.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            left.set(ylabel=f"speed-up over {ranks[0]} rank{'' if ranks[0] == 1 else 's'}")
        top = max(scaling.efficiencies(points, name, weak)[-1] for name in TIMES)
        right.axhline(1, color=style.UNKNOWN, linestyle="--", linewidth=1.2)
        right.set(ylabel="efficiency", ylim=(0, max(1.15, 1.1 * top)))
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_locator(FixedLocator(ranks))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.set_xlabel("ranks")
            style.grid(axes, "both")
        left.legend(loc="best")
    return figure
