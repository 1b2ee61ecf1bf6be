# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Axes for matrices with a row and a column a task: labels, boxes around clusters."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.page import style


def boxes(axes: Axes, ordered: Array) -> None:
    """Around the clusters of more than one of a matrix whose rows are in their order."""
    for number in np.unique(ordered):
        held = np.flatnonzero(ordered == number)
        if len(held) > 1:
            corner = (held[0] - 0.5, held[0] - 0.5)
            axes.add_patch(
                Rectangle(corner, len(held), len(held), fill=False, edgecolor="#d9632a", linewidth=2)
            )


WIDE = 3  # matrices in a row


def matrices(count: int) -> tuple[Figure, list[Axes]]:
    """Axes for matrices with a row and a column a task."""
    columns, rows = min(count, WIDE), -(-count // WIDE)
    figure = Figure(figsize=(min(1.0, 0.5 * columns) * style.PAGE, rows * (4.6 if columns < WIDE else 3.9)))
    plots = list(np.asarray(figure.subplots(rows, columns, squeeze=False)).ravel())
    for spare in plots[count:]:
        spare.set_axis_off()
    return figure, plots[:count]


def label(axes: Axes, tasks: list[str], left: bool = True) -> None:
    axes.set_xticks(range(len(tasks)), tasks, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(tasks)), tasks if left else [""] * len(tasks))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
