# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity over runs: against epochs of pre-training, steps and replaced pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis.page import style
from taugrid_analysis.quantities.causes import several_runs
from taugrid_analysis.run.opened import Run

MIXED, BASELINE = "#2a7fba", "#8b93a0"


def epochs(runs: Sequence[Run]) -> Figure | None:
    """The paper's figure 11: of pre-training, and of fine-tuning in a run with several numbers of steps."""
    frame = several_runs.linearity(runs)
    if frame.empty:
        return None
    replacing = frame.groupby("run")["replaced"].transform("max") > 0
    known = frame["steps"].notna()  # models that were given have other starts
    whole = frame[~replacing & ~frame["alike"] & known]
    parts = [
        (whole[~whole["varied"] & whole["epochs"].notna()], "epochs", "epochs of pre-training"),
        (whole[whole["varied"]], "steps", "steps of fine-tuning"),
    ]
    return _panels(parts)


def replaced(runs: Sequence[Run]) -> Figure | None:
    """The paper's figure 12: by pictures of pre-training, and by the other task's."""
    frame = several_runs.linearity(runs)
    if frame.empty:
        return None
    parts = []
    for title, mine in (
        ("start", frame["other"] == "start"),
        ("the other task", frame["other"].str[:1] == "d"),
    ):
        known = frame[mine]
        alone = frame[(frame["other"] == "") & frame["run"].isin(known["run"])]
        parts.append(
            (pd.concat([alone, known]) if len(known) else known, "replaced", f"percent replaced by {title}")
        )
    return _panels(parts)


def _panels(parts: Sequence[tuple[pd.DataFrame, str, str]]) -> Figure | None:
    """1 − cosine above, the coefficient below; a column each with two values of x or more."""
    shown = [part for part in parts if part[0][part[1]].nunique() > 1]
    if not shown:
        return None
    with style.settings():
        figure = Figure(figsize=(0.8 + 3.6 * len(shown), 5.2))
        plots = np.asarray(figure.subplots(2, len(shown), sharex="col", squeeze=False))
        for column, (frame, x, title) in enumerate(shown):
            _curve(plots[0, column], frame, x, "cosine", MIXED, "mixed weights", far=True)
            _curve(plots[0, column], frame, x, "baseline", BASELINE, "f(θ₁) against f(θ₂)", far=True)
            _curve(plots[1, column], frame, x, "coefficient", MIXED, "", far=False)
            plots[0, column].set_yscale("log")
            plots[1, column].axhline(1, color=style.INK, linewidth=0.7)
            plots[1, column].set_xlabel(title)
            style.grid(plots[0, column])
            style.grid(plots[1, column])
        plots[0, 0].set_ylabel("1 − cosine, last stage")
        plots[1, 0].set_ylabel("coefficient")
        plots[0, 0].legend(loc="best", fontsize=7)
    return figure


def _curve(axes: Axes, frame: pd.DataFrame, x: str, name: str, colour: str, label: str, far: bool) -> None:
    """Means over pairs at each x, bands from the mean lower to the mean upper quartile of the points."""
    means = frame.groupby(x)[[name, f"{name}_lower", f"{name}_upper"]].mean()
    values = [
        np.maximum(1 - means[column].to_numpy(), 1e-9) if far else means[column].to_numpy()
        for column in means
    ]
    axes.plot(means.index, values[0], color=colour, marker="o", markersize=3, label=label)
    axes.fill_between(means.index, values[1], values[2], color=colour, alpha=0.15, linewidth=0)
