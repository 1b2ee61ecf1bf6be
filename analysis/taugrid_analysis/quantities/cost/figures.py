# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a training step costs."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from taugrid_analysis.page import style
from taugrid_analysis.run.opened import Run

MEGA = 1e6


def cost(run: Run) -> Figure | None:
    known = {name: data for name in run.results.names("cost") if (data := run.data("cost", name)) is not None}
    if not known:
        return None

    def values(column: str) -> list[float]:
        return [run.results.positive(data, column) for data in known.values()]

    weights = [
        4 * (2 if run.results.regime(name).linear else 1) * count
        for name, count in zip(known, values("parameters"), strict=True)
    ]
    panels = [
        ("milliseconds a step", [1e3 * seconds for seconds in values("seconds_per_step")]),
        ("peak memory of a step, MB", [size / MEGA for size in values("peak_memory")]),
        ("four bytes a parameter, MB", [size / MEGA for size in weights]),
        ("trained parameters, 10⁶", [count / MEGA for count in values("trainable_parameters")]),
    ]
    tints = [style.colour(name, run.regimes) for name in known]
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 1.0 + 0.3 * len(known)))
        plots = np.asarray(figure.subplots(1, len(panels), sharey=True))
        for axes, (title, numbers) in zip(plots, panels, strict=True):
            bars = axes.barh(range(len(known)), numbers, 0.7, color=tints)
            axes.bar_label(bars, fmt="{:.3g}", padding=2, fontsize=7.5)
            axes.set_xlabel(title)
            axes.margins(x=0.2)
            style.grid(axes, "x")
            axes.tick_params(axis="y", length=0)
        plots[0].set_yticks(range(len(known)), list(known))
        plots[0].invert_yaxis()
    return figure
