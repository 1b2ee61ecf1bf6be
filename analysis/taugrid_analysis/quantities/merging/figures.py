# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merging methods: the accuracy that each buys, over what it costs."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from taugrid_analysis.page import style
from taugrid_analysis.quantities.merging import models
from taugrid_analysis.run.opened import Run

COSTS = {
    "seconds": "seconds",
    "bytes": "bytes of vectors read",
    "passes": "passes over the vectors",
    "inputs": "inputs through models, both ways",
}


def accuracy_over_cost(run: Run) -> Figure | None:
    """A row of pictures a regime; open circles: methods that take data. Bars: ± of the sample."""
    frame = models.of_run(run)
    if frame.empty:
        return None
    frame = frame.assign(inputs=frame["forward_passes"] + frame["backward_passes"])
    costs = {name: title for name, title in COSTS.items() if (frame[name] > 0).any()}
    regimes = list(dict.fromkeys(frame["regime"]))
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 4.3 * len(regimes)))
        plots = np.asarray(figure.subplots(len(regimes), len(costs), squeeze=False, sharey="row"))
        for line, regime in zip(plots, regimes, strict=True):
            rows = frame[frame["regime"] == regime]
            tint = style.colour(regime, run.regimes)
            with_data = rows["forward_passes"].to_numpy() > 0
            for axes, (name, title) in zip(line, costs.items(), strict=True):
                cost = rows[name].to_numpy(dtype=float)
                if name == "bytes":  # on a logarithmic axis: training together reads no vector
                    cost = np.where(cost > 0, cost, np.nan)
                options = {"color": tint, "fmt": "o", "markersize": 5, "elinewidth": 0.8}
                for kind, face in ((~with_data, tint), (with_data, "none")):
                    axes.errorbar(
                        cost[kind],
                        rows["normalized"][kind],
                        rows["normalized_error"][kind],
                        markerfacecolor=face,
                        **options,
                    )
                for x, y, method in zip(cost, rows["normalized"], rows["method"], strict=True):
                    if np.isfinite(x):
                        axes.annotate(method, (x, y), fontsize=6.2, xytext=(4, 3), textcoords="offset points")
                if name == "inputs":  # of most methods none
                    axes.set_xscale("symlog", linthresh=1)
                elif name != "passes":
                    axes.set_xscale("log")
                axes.margins(x=0.2)
                axes.set(xlabel=title)
                style.grid(axes, "both")
            line[0].set(ylabel=f"{regime}: normalised accuracy")
    return figure
