# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' figures, drawn by the functions that draw the report, from one run or several side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.page import style
from taugrid_analysis.quantities.disentanglement import figures as disentanglement_figures
from taugrid_analysis.quantities.disentanglement import xi
from taugrid_analysis.quantities.disentanglement.figures import Cell
from taugrid_analysis.quantities.ntk import figures as ntk_figures
from taugrid_analysis.quantities.ntk import shares
from taugrid_analysis.quantities.predictors import figures as predictors_figures
from taugrid_analysis.quantities.predictors import lines
from taugrid_analysis.quantities.single_task import figures as single_task_figures
from taugrid_analysis.run.opened import Run

Draw = Callable[[Sequence[Run]], Figure | None]
PARADIGMS = ("standard", "linear", "attention")  # paper 4's three


def each(draw: Callable[[Run], Figure | None]) -> Draw:
    """One picture a run, side by side under the runs' names."""

    def draw_all(runs: Sequence[Run]) -> Figure | None:
        drawn = [(style.run_title(run, runs), draw(run)) for run in runs]
        known = [(title, picture) for title, picture in drawn if picture is not None]
        if len(known) > 1:
            return style.beside(known)
        return known[0][1] if known else None

    return draw_all


def _named(run: Run, first: str, second: str) -> int | None:
    """The pair of the paper, where the run measured it."""
    names = [task.lower() for task in run.results.tasks]
    if first not in names or second not in names:
        return None
    wanted = {names.index(first), names.index(second)}
    return next((place for place, pair in enumerate(run.results.pairs.tolist()) if set(pair) == wanted), None)


def _pair_names(run: Run) -> tuple[str, ...]:
    return tuple(run.results.pair_name(pair) for pair in range(len(run.results.pairs)))


def _spread(values: Array, count: int = 3) -> list[int]:
    """Pairs from the least to the largest value, evenly over the ranks."""
    order = np.argsort(np.where(np.isfinite(values), values, np.inf))[: int(np.isfinite(values).sum())]
    places = np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int)
    return [int(order[place]) for place in places]


def _grid(run: Run, regime: str) -> xr.Dataset:
    grid = run.data("disentanglement", regime)
    assert grid is not None
    return grid


def _one(run: Run, regime: str) -> Array:
    """What the pairs are ordered by: ξ(1,1), or the grid's mean where it does not reach (1,1)."""
    grid = _grid(run, regime)
    at_one = xi.at(grid, 1.0, 1.0)
    return at_one if np.isfinite(at_one).any() else xi.box_mean(grid)


def examples(*regimes: str) -> Draw:
    def draw(run: Run) -> Figure | None:
        chosen = _spread(_one(run, regimes[0]))
        if not chosen:
            return None
        rows = [(name, [Cell(run, _grid(run, name), pair) for pair in chosen]) for name in regimes]
        return disentanglement_figures.examples(rows, [run.results.pair_name(pair) for pair in chosen])

    return each(draw)


def examples_or_pair(first: str, second: str, *regimes: str) -> Draw:
    """The paper's pair of tasks where the run has it, else pairs from the least to the largest ξ."""

    def draw(run: Run) -> Figure | None:
        pair = _named(run, first, second)
        if pair is None:
            return examples(*regimes)([run])
        rows = [(name, [Cell(run, _grid(run, name), pair)]) for name in regimes]
        return disentanglement_figures.examples(rows, [run.results.pair_name(pair)])

    return each(draw)


def single_pair(first: str, second: str, *regimes: str) -> Draw:
    """One pair, a column a run: models of several sizes in one picture.

    Runs of the same pairs of tasks show the first one's.
    """

    def draw(runs: Sequence[Run]) -> Figure | None:
        chosen: dict[tuple[str, ...], int | None] = {}
        for run in runs:
            if _pair_names(run) not in chosen:
                chosen[_pair_names(run)] = _typical(run, first, second, regimes[0])
        shown = [(run, pair) for run in runs if (pair := chosen[_pair_names(run)]) is not None]
        if not shown:
            return None
        rows = [(name, [Cell(run, _grid(run, name), pair) for run, pair in shown]) for name in regimes]
        titles = [run.results.pair_name(pair) for run, pair in shown]
        if len(runs) > 1:
            titles = [
                f"{style.run_title(run, runs)}\n{title}"
                for (run, _), title in zip(shown, titles, strict=True)
            ]
        return disentanglement_figures.examples(rows, titles)

    return draw


def _typical(run: Run, first: str, second: str, regime: str, rank: int = 1) -> int | None:
    """The pair of the paper, else of least (rank 0), median (1) or largest ξ; None where no pair has a ξ."""
    named = _named(run, first, second)
    ordered = _spread(_one(run, regime)) if named is None else []
    return ordered[min(rank, len(ordered) - 1)] if ordered else named


def levels(first: str, second: str, rank: int) -> Draw:
    """Encoder's output above, predictions below; regimes side by side.

    The symmetric KL where the file has it, as the authors' code draws it, beside that of equation 2.
    """

    def draw(run: Run) -> Figure | None:
        pair = _typical(run, first, second, PARADIGMS[0], rank)
        if pair is None:
            return None
        inner = [data for name in PARADIGMS if (data := run.data("representation", name)) is not None]
        rows = [("encoder's output", [Cell(run, data, pair) for data in inner])]
        if all("symmetric_error" in data for data in inner):
            symmetric = [Cell(run, data, pair, "symmetric_error") for data in inner]
            rows.insert(0, ("encoder's output, symmetric", symmetric))
        rows.append(("predictions", [Cell(run, _grid(run, name), pair) for name in PARADIGMS]))
        return disentanglement_figures.examples(rows, list(PARADIGMS))

    return each(draw)


def by_product(run: Run) -> Figure | None:
    """Pairs from the largest τJp of linear fine-tuning to the least."""
    products = {name: run.pairs.loc[name]["tau_jp"].to_numpy(dtype=float) for name in ("linear", "tau_jp")}
    chosen = _spread(products["linear"])[::-1]
    if not chosen:
        return None
    rows = [(name, [Cell(run, _grid(run, name), pair) for pair in chosen]) for name in products]
    headings = [
        f"{run.results.pair_name(pair)}\nτJp {products['linear'][pair]:.3g} → {products['tau_jp'][pair]:.3g}"
        for pair in chosen
    ]
    return disentanglement_figures.examples(rows, headings)


def product_against_accuracy(run: Run) -> Figure | None:
    return predictors_figures.scatter(run, ["linear", "tau_jp"], predictors_figures.accuracies(run))


def product_against_cosine(run: Run) -> Figure | None:
    return predictors_figures.scatter(
        run,
        ["linear", "tau_jp"],
        [("cosine of the task vectors", lambda name: lines.predictors(run, name).get("cosine"))],
    )


def energy(start: str, count: int) -> Draw:
    def draw(run: Run) -> Figure | None:
        data = run.data("ntk", start)
        assert data is not None
        ordered = ntk_figures.ordered_pairs(shares.own_share(data["local_energy"].to_numpy()))
        if not ordered:
            return None
        ends = (0, len(ordered) - 1) if count > 1 else 2 * ((len(ordered) - 1) // 2,)
        chosen = [ordered[round(place)] for place in np.linspace(*ends, count)]
        names = [task.lower() for task in run.results.tasks]
        if count == 1 and {"resisc45", "cars"} <= set(names):  # the paper's own: trained, control
            chosen = [(names.index("resisc45"), names.index("cars"))]
        return ntk_figures.energies(run, start, chosen)

    return each(draw)


def kernel_test(runs: Sequence[Run]) -> Figure | None:
    return single_task_figures.against(
        runs,
        [
            ("standard", "posthoc", "whole model: post-hoc against non-linear"),
            ("attention", "attention_posthoc", "attention only: post-hoc against non-linear"),
        ],
    )


def advantage(*rivals: str, means: bool = False) -> Draw:
    series = [("standard", name, f"{name} against standard") for name in rivals]
    return lambda runs: single_task_figures.against(runs, series, means)


def accuracies(*names: str) -> Draw:
    return each(lambda run: single_task_figures.accuracies(run, [run.results.start, *names]))
