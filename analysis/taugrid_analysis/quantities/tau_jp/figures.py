# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""τJp of every ordered pair, as matrices."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from taugrid_analysis.page import matrices, style
from taugrid_analysis.run.opened import Run


def tau_jp(run: Run, regimes: list[str] | None = None) -> Figure | None:
    """Rows: whose task vector; columns: whose points, the control's last. One logarithmic scale."""
    names = run.results.names("tau_jp") if regimes is None else regimes
    shown = {}
    for name in names:
        data = run.data("tau_jp", name)
        if data is None:
            continue
        columns = [data["value"].to_numpy().astype(float)]
        if "control" in data:
            columns.append(data["control"].to_numpy().astype(float)[:, None])
        shown[name] = np.concatenate(columns, axis=1)
    values = np.concatenate([matrix.ravel() for matrix in shown.values()]) if shown else np.array([])
    values = values[np.isfinite(values) & (values > 0)]
    if not values.size:
        return None
    scale = LogNorm(values.min(), max(values.max(), 1.001 * values.min()))
    with style.settings():
        figure, plots = matrices.matrices(len(shown))
        for index, (axes, (name, matrix)) in enumerate(zip(plots, shown.items(), strict=True)):
            image = axes.imshow(matrix, cmap=style.ERROR_MAP, norm=scale, interpolation="none", aspect="auto")
            for row, column in np.ndindex(*matrix.shape):
                value = matrix[row, column]
                if np.isfinite(value):
                    ink = style.ink_on(float(scale(max(value, values.min()))))
                    axes.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=5.8, color=ink)
            matrices.label(axes, run.results.tasks, index % matrices.WIDE == 0)
            if matrix.shape[1] > len(run.results.tasks):
                axes.set_xticks(range(matrix.shape[1]), [*run.results.tasks, "control"])
            axes.set_title(f"{name}: ‖J(x)τ‖²")
            axes.set_gid(f"{style.MAP}tau_jp/{name}")
            axes.set_xlabel("x of")
            if index % matrices.WIDE == 0:
                axes.set_ylabel("τ of")
        bar = figure.colorbar(image, ax=plots, shrink=0.8, pad=0.015)
        bar.outline.set_visible(False)
    return figure
