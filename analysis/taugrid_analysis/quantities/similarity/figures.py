# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Matrices of cosines, of sign conflicts and of overlaps of masks."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from taugrid_analysis.numbers import means
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.page import style
from taugrid_analysis.page.matrices import WIDE, boxes, label, matrices
from taugrid_analysis.quantities.similarity import clusters
from taugrid_analysis.run.opened import Run


def cosines(run: Run, names: list[str] | None = None) -> Figure | None:
    return _of_pairs(run, "cosine", "cosine of task vectors", 0, names)


def sign_conflicts(run: Run) -> Figure | None:
    return _of_pairs(run, "sign_conflict", "signs that differ", 0.5)


def mask_overlaps(run: Run) -> Figure | None:
    return _of_pairs(run, "mask_overlap", "overlap of masks", 0)


def _of_pairs(
    run: Run, matrix: str, title: str, middle: float, names: list[str] | None = None
) -> Figure | None:
    """A matrix of /similarity a regime, its colours around `middle`."""
    names = run.results.names("similarity") if names is None else names
    known = {
        name: data[matrix]
        for name in names
        if (data := run.data("similarity", name)) is not None and matrix in data
    }
    if not known or len(run.results.tasks) < 2:
        return None
    largest = max(
        float(np.nanmax(np.abs(means.off_diagonal(values.to_numpy()) - middle), initial=0))
        for values in known.values()
    )
    top = max(0.05, float(np.ceil(largest * 20) / 20))
    with style.settings():
        figure, plots = matrices(len(known))
        for index, (axes, (name, values)) in enumerate(zip(plots, known.items(), strict=True)):
            shown = values.to_numpy().astype(float)
            np.fill_diagonal(shown, np.nan)
            image = axes.imshow(
                shown, cmap=style.SIGNED_MAP, vmin=middle - top, vmax=middle + top, interpolation="none"
            )
            _numbers(axes, shown, top, middle)
            label(axes, run.results.tasks, index % WIDE == 0)
            axes.set_title(f"{name}: {title}")
            axes.set_gid(f"{style.MAP}{matrix}/{name}")
        bar = figure.colorbar(image, ax=plots, shrink=0.8, pad=0.015)
        bar.outline.set_visible(False)
    return figure


def grouped(run: Run) -> Figure | None:
    """Cosines with tasks in the order of their clusters, their names in the colours of natural groups."""
    kinds = list(dict.fromkeys(run.results.groups))
    names = [name for name in run.results.names("similarity") if run.data("similarity", name) is not None]
    if len(kinds) < 2 or not names:
        return None
    tint = {kind: style.KIND_COLOURS[place % len(style.KIND_COLOURS)] for place, kind in enumerate(kinds)}
    with style.settings():
        figure, plots = matrices(len(names))
        for index, (axes, name) in enumerate(zip(plots, names, strict=True)):
            data = run.data("similarity", name)
            assert data is not None
            cosine = data["cosine"].to_numpy().astype(float)
            partition = clusters.clusters(cosine, len(kinds))
            shown = cosine[np.ix_(partition.order, partition.order)]
            np.fill_diagonal(shown, np.nan)
            top = max(0.05, float(np.nanmax(np.abs(shown))))
            image = axes.imshow(shown, cmap=style.SIGNED_MAP, vmin=-top, vmax=top, interpolation="none")
            boxes(axes, partition.labels[partition.order])
            label(axes, [run.results.tasks[place] for place in partition.order], index % WIDE == 0)
            for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
                for tick, place in zip(ticks, partition.order, strict=True):
                    tick.set_color(tint[run.results.groups[place]])
            axes.set_title(f"{name}: cosine, by cluster")
            figure.colorbar(image, ax=axes, shrink=0.8, pad=0.015).outline.set_visible(False)
        marks = [Patch(color=tint[kind], label=kind or "none") for kind in kinds]
        figure.legend(handles=marks, loc="outside lower center", ncols=3 * len(plots))
    return figure


def _numbers(axes: Axes, values: Array, top: float, middle: float = 0) -> None:
    for row, column in np.ndindex(*values.shape):
        value = values[row, column]
        if np.isfinite(value):
            ink = "white" if abs(value - middle) > 0.75 * top else "#101215"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6.2, color=ink)
