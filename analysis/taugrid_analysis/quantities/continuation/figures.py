# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""τJp and accuracy along further regularised steps."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from taugrid_analysis.page import style
from taugrid_analysis.quantities.continuation import trace
from taugrid_analysis.run.opened import Run

BLUE, RED = "#2a7fba", "#c8322b"


def continuation(run: Run) -> Figure | None:
    """τJp and normalised accuracy along the further steps, for the pairs of most and of least τJp."""
    names = run.results.names("continuation")
    if not names:
        return None
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 3.8 * len(names)))
        rows = np.atleast_2d(np.asarray(figure.subplots(len(names), 2)))
        for line, name in zip(rows, names, strict=True):
            data = run.data("continuation", name)
            assert data is not None
            product = trace.pair_trace(data, run.results.pairs)
            extremes = trace.extreme_pairs(data, run.results.pairs)
            step, accuracy = data["step"].to_numpy(), data["pair_normalized"].to_numpy()
            for axes, pair, title in zip(line, extremes, ("most τJp", "least τJp"), strict=True):
                other = axes.twinx()
                axes.plot(step, accuracy[:, pair], "o-", color=BLUE, markersize=3.5)
                axes.plot(step, data["normalized"].to_numpy(), ":", color=BLUE, linewidth=1.2)
                other.plot(step, product[:, pair], "s-", color=RED, markersize=3.5)
                axes.set_xlabel("further steps")
                axes.set_ylabel("normalised accuracy at α = 1 (dotted: all tasks)", color=BLUE)
                other.set_ylabel("τJp", color=RED)
                other.set_ylim(0, None)
                other.spines["right"].set_visible(True)
                axes.tick_params(axis="y", colors=BLUE)
                other.tick_params(axis="y", colors=RED)
                axes.set_title(f"{name}, {title}: {run.results.pair_name(pair)}")
                style.grid(axes)
    return figure
