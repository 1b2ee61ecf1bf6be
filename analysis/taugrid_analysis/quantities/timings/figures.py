# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the time and the energy went."""

from __future__ import annotations

import math
from collections.abc import Callable

from matplotlib.figure import Figure

from taugrid_analysis.page import style
from taugrid_analysis.run.model import Unit
from taugrid_analysis.run.opened import Run

UNITS = 600  # bars; of more, those of a rank and kind are drawn as one


def timings(run: Run) -> Figure | None:
    """A bar a rank: seconds of its units by kind, the single units set apart by thin lines."""
    return _bars(run.results.units(), lambda unit: unit.seconds, "s", "seconds of work units")


def energy(run: Run) -> Figure | None:
    """A bar a rank: joules of its units by kind, of those that something counted."""
    counted = [unit for unit in run.results.units() if math.isfinite(unit.joules)]
    return _bars(counted, lambda unit: unit.joules, "J", "joules of work units")


def _bars(units: list[Unit], value: Callable[[Unit], float], unit_name: str, title: str) -> Figure | None:
    if not units:
        return None
    ranks = sorted({unit.rank for unit in units})
    kinds = list(dict.fromkeys(unit.kind for unit in units))
    tints = {kind: style.KIND_COLOURS[index % len(style.KIND_COLOURS)] for index, kind in enumerate(kinds)}
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 1.3 + 0.42 * min(len(ranks), 32)))
        axes = figure.subplots()
        single = len(units) <= UNITS
        for row, rank in enumerate(ranks):
            begin = 0.0
            for kind in kinds:
                values = [value(unit) for unit in units if (unit.rank, unit.kind) == (rank, kind)]
                for length in values if single else [sum(values)]:
                    line = 0.4 if single else 0.0
                    axes.barh(row, length, 0.72, begin, color=tints[kind], edgecolor="white", linewidth=line)
                    begin += length
            axes.text(begin, row, f" {begin:,.0f} {unit_name}", va="center")
        for kind in kinds:
            axes.barh(0, 0, color=tints[kind], label=kind)
        axes.set_yticks(range(len(ranks)), [f"rank {rank}" for rank in ranks])
        axes.invert_yaxis()
        axes.set(xlabel=title)
        axes.margins(x=0.06)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=min(len(kinds), 7))
        style.grid(axes, "x")
        axes.tick_params(axis="y", length=0)
    return figure
