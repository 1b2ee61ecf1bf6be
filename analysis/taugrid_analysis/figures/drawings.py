# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' figures, drawn from a run by the functions that draw the report."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from taugrid_analysis import measures, predictors
from taugrid_analysis.figures import edits, grids, interference, kernel, tasks
from taugrid_analysis.records import Array, Disentanglement
from taugrid_analysis.results import Results

Draw = Callable[[Results], Figure | None]
PARADIGMS = ("standard", "linear", "attention")  # paper 4's three


def _named(results: Results, first: str, second: str) -> int | None:
    """The pair of the paper, where the run measured it."""
    names = [task.lower() for task in results.tasks]
    if first not in names or second not in names:
        return None
    wanted = {names.index(first), names.index(second)}
    return next((place for place, pair in enumerate(results.pairs.tolist()) if set(pair) == wanted), None)


def _spread(values: Array, count: int = 3) -> list[int]:
    """Pairs from the least to the largest value, evenly over the ranks."""
    order = np.argsort(np.where(np.isfinite(values), values, np.inf))[: int(np.isfinite(values).sum())]
    places = np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int)
    return [int(order[place]) for place in places]


def _grid(results: Results, regime: str) -> Disentanglement:
    grid = results.disentanglement(regime)
    assert grid is not None
    return grid


def _one(results: Results, regime: str) -> Array:
    """What the pairs are ordered by: ξ(1,1), or the grid's mean where it does not reach (1,1)."""
    grid = _grid(results, regime)
    one = measures.at(grid, 1.0, 1.0)
    return one if np.isfinite(one).any() else measures.grid_mean(grid)


def examples(*regimes: str) -> Draw:
    def draw(results: Results) -> Figure | None:
        chosen = _spread(_one(results, regimes[0]))
        if not chosen:
            return None
        rows = [(name, [(_grid(results, name), pair) for pair in chosen]) for name in regimes]
        return grids.examples(results, rows, [results.pair_name(pair) for pair in chosen])

    return draw


def single_pair(first: str, second: str, *regimes: str) -> Draw:
    def draw(results: Results) -> Figure | None:
        pair = _named(results, first, second)
        if pair is None:
            ordered = _spread(_one(results, regimes[0]))
            if not ordered:
                return None
            pair = ordered[len(ordered) // 2]
        rows = [(name, [(_grid(results, name), pair)]) for name in regimes]
        return grids.examples(results, rows, [results.pair_name(pair)])

    return draw


def levels(first: str, second: str, spread: int) -> Draw:
    """Encoder's output above, predictions below; regimes side by side."""

    def draw(results: Results) -> Figure | None:
        pair = _named(results, first, second)
        if pair is None:
            ordered = _spread(_one(results, PARADIGMS[0]))
            if not ordered:
                return None
            pair = ordered[min(spread, len(ordered) - 1)]
        inner = [(results.representation(name), pair) for name in PARADIGMS]
        rows = [
            ("encoder's output", [(grid, place) for grid, place in inner if grid is not None]),
            ("predictions", [(_grid(results, name), pair) for name in PARADIGMS]),
        ]
        return grids.examples(results, rows, list(PARADIGMS))

    return draw


def by_product(results: Results) -> Figure | None:
    """Pairs from the largest τJp of linear fine-tuning to the least."""
    products = {name: predictors.predictors(results, name)["tau_jp"] for name in ("linear", "tau_jp")}
    chosen = _spread(products["linear"])[::-1]
    if not chosen:
        return None
    rows = [(name, [(_grid(results, name), pair) for pair in chosen]) for name in products]
    headings = [
        f"{results.pair_name(pair)}\nτJp {products['linear'][pair]:.3g} → {products['tau_jp'][pair]:.3g}"
        for pair in chosen
    ]
    return grids.examples(results, rows, headings)


def product_against_accuracy(results: Results) -> Figure | None:
    regimes = ["linear", "tau_jp"]
    return interference.scatter(
        results,
        regimes,
        [
            (f"normalised accuracy of the pair, {outcome}", predictors.outcome(results, outcome))
            for outcome in predictors.OUTCOMES
        ],
    )


def product_against_cosine(results: Results) -> Figure | None:
    return interference.scatter(
        results,
        ["linear", "tau_jp"],
        [("cosine of the task vectors", lambda name: predictors.predictors(results, name).get("cosine"))],
    )


def energy(start: str, count: int) -> Draw:
    def draw(results: Results) -> Figure | None:
        record = results.ntk(start)
        assert record is not None
        ordered = kernel.ordered_pairs(measures.own_share(record.local_energy))
        if not ordered:
            return None
        ends = (0, len(ordered) - 1) if count > 1 else 2 * ((len(ordered) - 1) // 2,)
        chosen = [ordered[round(place)] for place in np.linspace(*ends, count)]
        pair = _named(results, "resisc45", "cars") if count == 1 else None
        if pair is not None:  # the paper's own: trained on RESISC45, Cars the control
            names = [task.lower() for task in results.tasks]
            chosen = [(names.index("resisc45"), names.index("cars"))]
        return kernel.energies(results, start, chosen)

    return draw


def kernel_test(results: Results) -> Figure | None:
    return edits.against(
        results,
        [
            ("standard", "posthoc", "whole model: post-hoc against non-linear"),
            ("attention", "attention_posthoc", "attention only: post-hoc against non-linear"),
        ],
    )


def advantage(*rivals: str, means: bool = False) -> Draw:
    series = [("standard", name, f"{name} against standard") for name in rivals]
    return lambda results: edits.against(results, series, means)


def accuracies(*names: str) -> Draw:
    return lambda results: tasks.accuracies(results, [results.start, *names])
