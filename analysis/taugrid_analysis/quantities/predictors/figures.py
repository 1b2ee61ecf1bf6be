# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""How well anything predicts the accuracy of a pair's sum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from taugrid_analysis.numbers import correlation, sampling
from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.page import style
from taugrid_analysis.quantities.predictors import lines as predictors_lines
from taugrid_analysis.quantities.predictors.lines import ACCURACIES, SAME_THING, TITLES, predictors
from taugrid_analysis.run.opened import Run

Ordinates = list[tuple[str, Callable[[str], Floats | None]]]


def accuracies(run: Run) -> Ordinates:
    """Normalised accuracy of every pair, of each regime, for each choice of α."""

    def taken(outcome: str) -> Callable[[str], Floats | None]:
        known = run.results.names("pair_addition")
        return lambda regime: predictors_lines.outcome(run, regime, outcome) if regime in known else None

    return [(f"normalised accuracy of the pair, {outcome}", taken(outcome)) for outcome in ACCURACIES]


def scatter(
    run: Run,
    regimes: list[str],
    ordinates: Ordinates,
) -> Figure | None:
    """A point a pair: τJp, logarithmic, against each ordinate in a panel of its own."""
    panels = []
    for title, take in ordinates:
        points = {}
        for name in regimes:
            x, y = predictors(run, name).get("tau_jp"), take(name)
            if x is not None and y is not None and (np.isfinite(x) & (x > 0) & np.isfinite(y)).any():
                points[name] = (x, y)
        if points:
            panels.append((title, points))
    if not panels:
        return None
    with style.settings():
        figure = Figure(figsize=(style.PAGE if len(panels) > 1 else 6.6, 3.9))
        plots = np.atleast_1d(np.asarray(figure.subplots(1, len(panels))))
        for axes, (title, points) in zip(plots, panels, strict=True):
            for index, (name, (x, y)) in enumerate(points.items()):
                rank = correlation.rank_correlation(x, y)
                axes.scatter(
                    x,
                    y,
                    s=24,
                    marker="o*sD^v"[index % 6],
                    color=style.colour(name, run.regimes),
                    alpha=0.75,
                    linewidths=0,
                    label=f"{name}, rank corr. {rank:.2f}",
                )
            style.logarithmic(axes)
            axes.set(xlabel="τJp of the pair", ylabel=title)
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, fontsize=7.5)
            style.grid(axes, "both")
    return figure


def forest(run: Run) -> Figure | None:
    """Rank correlation of each predictor, a colour a regime; lines: without any one task.

    Filled where task permutations, corrected for the best predictor, reach it in fewer than 5 %. ξ stands
    apart below.
    """
    lines = [line for line in predictors_lines.lines(run) if np.isfinite(line.spearman.value)]
    regimes = list(dict.fromkeys(line.regime for line in lines))
    if not lines:
        return None
    titles = TITLES | SAME_THING
    names = [name for name in titles if any(line.predictor == name for line in lines)]
    apart = sum(name in predictors_lines.TITLES for name in names)
    step = 0.8 / len(regimes)
    with style.settings():
        figure = Figure(figsize=(style.PAGE, 1.3 + len(names) * max(0.42, 0.11 * len(regimes))))
        outcomes = [name for name in predictors_lines.OUTCOMES if any(line.outcome == name for line in lines)]
        plots = np.atleast_1d(np.asarray(figure.subplots(1, len(outcomes), sharey=True)))
        for axes, outcome in zip(plots, outcomes, strict=True):
            for line in lines:
                if line.outcome != outcome:
                    continue
                at = names.index(line.predictor) + (regimes.index(line.regime) + 0.5) * step - 0.4
                tint = style.colour(line.regime, run.regimes)
                axes.plot([line.spearman.low, line.spearman.high], [at, at], color=tint, linewidth=1.4)
                holds = line.spearman.best < 1 - sampling.LEVEL and line.predictor in predictors_lines.TITLES
                face = tint if holds else "none"
                axes.plot(line.spearman.value, at, "o", color=tint, markerfacecolor=face, markersize=4.5)
            axes.axvline(0, color=style.INK, linewidth=0.7)
            kind = "normalised accuracy,\n" if outcome in predictors_lines.ACCURACIES else ""
            axes.set(xlim=(-1.02, 1.02), xlabel=f"rank correlation with {kind}{outcome}")
            for place in range(1, len(names)):
                bold = place == apart
                tone = style.INK if bold else style.FAINT
                axes.axhline(place - 0.5, color=tone, linewidth=0.6, linestyle="--" if bold else "-")
            style.grid(axes, "x")
            axes.tick_params(axis="y", length=0)
        plots[0].set_yticks(range(len(names)), [titles[name] for name in names])
        plots[0].set_ylim(len(names) - 0.5, -0.5)
        for name in regimes:
            plots[-1].plot([], [], "o-", color=style.colour(name, run.regimes), label=name)
        plots[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
