# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Loss gaps against their bounds."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from taugrid_analysis.numbers.correlation import rank_correlation
from taugrid_analysis.page import style
from taugrid_analysis.page.matrices import WIDE
from taugrid_analysis.quantities.smoothness.bounds import all_bounds
from taugrid_analysis.run.opened import Run


def smoothness(run: Run) -> Figure | None:
    """The bound L C (1+ε) of a task's loss gap against that gap, in each of the task's pairs."""
    known = all_bounds(run)
    if not known:
        return None
    with style.settings():
        columns, rows = min(len(known), WIDE), -(-len(known) // WIDE)
        figure = Figure(figsize=(style.PAGE, 3.7 * rows))
        plots = list(np.asarray(figure.subplots(rows, columns, squeeze=False)).ravel())
        for spare in plots[len(known) :]:
            spare.set_axis_off()
        for axes, (name, frame) in zip(plots, known.items(), strict=False):
            bound, gap = frame["bound"].to_numpy(), frame["gap"].to_numpy()
            tint = style.colour(name, run.regimes)
            axes.scatter(bound, gap, s=22, color=tint, alpha=0.65, linewidths=0)
            axes.axhline(0, color=style.FAINT, linewidth=0.8)
            if gap.max() > 0.2 * bound.min():  # else the line on which the bound is reached is out of sight
                ends = np.array([bound.min(), bound.max()])
                axes.plot(ends, ends, "--", color=style.INK, linewidth=0.8)
            style.logarithmic(axes)
            axes.set(xlabel="bound L C (1+ε)", ylabel="loss gap at α = ½")
            rank = rank_correlation(bound, gap)
            tight = frame["tightness"].median()
            axes.set_title(f"{name}\nrank corr. {rank:.2f}, median gap/bound {tight:.2g}")
            style.grid(axes, "both")
    return figure
