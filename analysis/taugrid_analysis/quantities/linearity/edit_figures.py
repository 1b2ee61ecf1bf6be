# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Sums and negations of task vectors by layer (cross-task linearity, figures 7, 8, 19 to 24)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis.page import style
from taugrid_analysis.quantities.linearity.figures import SHOWN, by_layer, distribution, mark_decoder, stages
from taugrid_analysis.run.frames.layers import PAPERS_LAMBDA, near_papers
from taugrid_analysis.run.opened import Run

ADDITION, NEGATION = "layer_addition", "layer_negation"
KINDS = {ADDITION: "pair", NEGATION: "task"}


def _rows(run: Run, kind: str, regime: str, last: int) -> tuple[pd.DataFrame, list[str]]:
    """The rows of the last stages at one λ, and what is shown: least, median and largest error."""
    data = run.data(kind, regime)
    frame = run.layer_additions if kind == ADDITION else run.layer_negations
    if data is None or frame.empty:
        return pd.DataFrame(), []
    frame = near_papers(frame[frame["regime"] == regime])
    frame = frame[frame["layer"].isin(data["layer"].to_numpy()[stages(run, data, last)])]
    order = frame.groupby(KINDS[kind], sort=False)["error"].mean().sort_values(kind="stable")
    places = np.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().astype(int)
    return frame, [str(order.index[place]) for place in places]


def curves(run: Run, regime: str, kinds: Sequence[str], last: int) -> Figure | None:
    """1 − cosine by layer beside its baseline, a row a kind."""
    return _figure(run, regime, kinds, last, ("cosine",))


def distributions(run: Run, regime: str, kinds: Sequence[str], last: int) -> Figure | None:
    """The coefficient, a row a kind."""
    return _figure(run, regime, kinds, last, ("coefficient",))


def both(run: Run, regime: str, kind: str, last: int) -> Figure | None:
    """1 − cosine above, the coefficient below."""
    return _figure(run, regime, (kind,), last, ("cosine", "coefficient"))


def _figure(
    run: Run, regime: str, kinds: Sequence[str], last: int, quantities: Sequence[str]
) -> Figure | None:
    parts = [(kind, quantity, *_rows(run, kind, regime, last)) for kind in kinds for quantity in quantities]
    parts = [part for part in parts if part[3]]
    if not parts:
        return None
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 3.2 * len(parts)))
        plots = np.asarray(figure.subplots(len(parts), SHOWN, sharey="row", squeeze=False))
        for line, (kind, quantity, frame, chosen) in zip(plots, parts, strict=True):
            for axes in line[len(chosen) :]:
                axes.set_axis_off()
            for axes, name in zip(line, chosen, strict=False):
                if quantity == "cosine":
                    by_layer(axes, frame[frame[KINDS[kind]] == name], "cosine", "baseline", "lambda")
                    data = run.data(kind, regime)
                    assert data is not None
                    mark_decoder(axes, data)
                    axes.set_xlabel("layer")
                else:
                    _distribution(run, regime, kind, name, last, axes)
                axes.set_title(f"{name}, {'added' if kind == ADDITION else 'negated'}", fontsize=9)
            line[0].set_ylabel("1 − cosine" if quantity == "cosine" else "part of the points")
            line[len(chosen) - 1].legend(loc="best", fontsize=7)
    return figure


def _distribution(run: Run, regime: str, kind: str, name: str, last: int, axes: Axes) -> None:
    data = run.data(kind, regime)
    assert data is not None
    pairs = [run.results.pair_name(p) for p in range(len(run.results.pairs))]
    row = (pairs if kind == ADDITION else run.results.tasks).index(name)
    weight = int(np.argmin(np.abs(data["lambda"].to_numpy() - PAPERS_LAMBDA)))
    counts = data["coefficient_histogram"].to_numpy()[row, :, weight]
    distribution(axes, data, counts, stages(run, data, last))
