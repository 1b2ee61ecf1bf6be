# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What negation leaves of targets and of the control."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.page import style
from taugrid_analysis.quantities.negation import forgetting
from taugrid_analysis.run.opened import Run


def negation(run: Run) -> Figure | None:
    """Means and single tasks after θ0 − α τ, α chosen over either paper's range."""
    names = run.results.names("negation")
    first = run.data("negation", names[0]) if names else None
    if first is None:
        return None
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 4.0))
        target, control = figure.subplots(1, 2)
        for place, name in enumerate(names):
            row, frame = run.summary.loc[name], run.tasks.loc[name]
            tint = style.colour(name, run.regimes)
            prefixes = [prefix for prefix in ("", "wide_") if np.isfinite(row[f"{prefix}kept"])]
            for index, prefix in enumerate(prefixes):
                at = place + (index - (len(prefixes) - 1) / 2) * 0.4
                for axes, column in ((target, f"{prefix}negated"), (control, f"{prefix}negated_control")):
                    errors = float(row[f"{column}_error"])
                    _bar(
                        axes, at, float(row[column]), errors, frame[column].to_numpy(dtype=float), tint, index
                    )
        before = float(run.summary.loc[run.results.start]["single"])
        kept = forgetting.control_accuracy(run.results)
        share = first.attrs["control_threshold"]
        if np.isfinite(before):
            _level(target, before, run.results.start)
        if np.isfinite(kept):
            _level(control, kept, run.results.start)
            _level(control, share * kept, f"{100 * share:g} %", above=False)
        for hatch, text in (("", "α in [0,1]"), ("////", "α in [0,3]")):
            target.bar(0, 0, color="white", edgecolor=style.INK, hatch=hatch, linewidth=0.6, label=text)
        target.set(ylabel="target accuracy", title="Target: to be forgotten")
        control.set(ylabel="control accuracy", title=f"Control, {first.attrs['control']}: to be kept")
        for axes in (target, control):
            turned = len(names) > 4
            axes.set_xticks(
                range(len(names)), names, rotation=30 if turned else 0, ha="right" if turned else "center"
            )
            axes.set_ylim(0, None)
            style.grid(axes)
            axes.tick_params(axis="x", length=0)
        figure.legend(*target.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


def _bar(axes: Axes, at: float, level: float, error: float, values: Array, tint: str, index: int) -> None:
    """A mean with its standard error, and the tasks as dots."""
    axes.bar(
        at,
        level,
        0.36,
        color=tint,
        alpha=0.9 if index == 0 else 0.55,
        hatch="////" if index else "",
        edgecolor="white",
        linewidth=0,
    )
    if np.isfinite(level) and np.isfinite(error):
        axes.vlines(at, level - error, level + error, color=style.INK, linewidth=1.0)
    known = values[np.isfinite(values)]
    axes.scatter(np.full(len(known), at), known, s=7, color=style.INK, alpha=0.5, linewidths=0)


def _level(axes: Axes, value: float, text: str, above: bool = True) -> None:
    axes.axhline(value, color=style.INK, linewidth=0.8, linestyle="--")
    axes.text(
        1.0,
        value,
        f" {text}",
        ha="left",
        va="bottom" if above else "top",
        fontsize=7.5,
        transform=axes.get_yaxis_transform(),
    )
