# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Where task vectors lie and meet: G[p,s,t] = ⟨τ_s[p], τ_t[p]⟩ over the numbers of parameter p.

/layer_similarity/R/gram [parameter, task, other]; start, ‖θ0[p]‖², numbers, stage and kind [parameter].
Summed over the parameters of a layer, G gives the layer's norms ‖τ_t‖ and cosines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from taugrid_analysis.files import text
from taugrid_analysis.numbers import means
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.run.group import Group, Variable, alike
from taugrid_analysis.run.opened import Run

if TYPE_CHECKING:
    from taugrid_analysis.recompute.checks import Check, Place, Reading
    from taugrid_analysis.recompute.oracle import Oracle

GROUP = "layer_similarity"
GROUPS = {
    GROUP: Group(
        {"gram": Variable(("parameter", "task", "other"))}
        | alike(("parameter",), "start", "numbers", "stage", "kind"),
        words={"kinds": "the names of the kinds of parameters"},
    )
}


def layer_similarity(run: Run) -> Table:
    """A row a stage, and a row a kind of parameter, of each regime."""
    table = Table(
        GROUP,
        "Task vectors by layer and by kind of parameter, means over tasks and pairs of tasks",
        [
            Column("regime"),
            Column("parameters"),
            Column("numbers", 1, percent=True),
            Column("squared norm", 1, percent=True),
            Column("norm / norm of θ0", 4),
            Column("|cosine|", 3),
            Column("by chance", 3),
        ],
    )
    for regime in run.results.names(GROUP):
        data = run.data(GROUP, regime)
        assert data is not None
        gram, start, numbers = (data[name].to_numpy() for name in ("gram", "start", "numbers"))
        squares = np.einsum("ptt->pt", gram)
        for label, parameters in _sets(
            data["stage"].to_numpy(), data["kind"].to_numpy(), data.attrs["kinds"]
        ):
            norm = np.sqrt(squares[parameters].sum(0))
            if not norm.any():
                continue  # frozen
            count = int(numbers[parameters].sum())
            cosine = gram[parameters].sum(0) / np.outer(norm, norm)
            table.rows.append(
                [
                    regime,
                    label,
                    count / float(numbers.sum()),
                    float((squares[parameters].sum(0) / squares.sum(0)).mean()),
                    float(norm.mean() / np.sqrt(start[parameters].sum())),
                    means.mean(np.abs(means.off_diagonal(cosine))),
                    float(np.sqrt(2 / (np.pi * count))),
                ]
            )
    if table.rows:
        table.notes.append(
            "By chance: the mean |cosine| of random vectors with as many numbers. One training of each task:"
            " other seeds give other vectors."
        )
    return table


def _sets(stage: Array, kind: Array, kinds: str) -> Iterator[tuple[str, Array]]:
    """Which parameters belong to each stage, and which to each kind."""
    for number in np.unique(stage):
        yield f"stage {number}", np.flatnonzero(stage == number)
    for number, name in enumerate(kinds.split(", ")):
        if (kind == number).any():
            yield name, np.flatnonzero(kind == number)


TABLES = {GROUP: layer_similarity}


def checks(oracle: Oracle) -> Iterator[Check]:
    from taugrid_analysis.recompute.checks import Reading, relative, stored
    from taugrid_analysis.recompute.common import each_place

    def name_of(regime: str, parameter: int) -> str:
        return text(oracle.results[f"{GROUP}/{regime}/parameter"][parameter])

    def inner_product(place: Place) -> Reading:
        regime, parameter, *tasks = place
        a, b = (oracle.tau(regime, t)[name_of(regime, parameter)].flatten() for t in tasks)
        return Reading(stored(oracle, GROUP, "gram", place), float(a @ b), 1e-5 * float(a.norm() * b.norm()))

    def start(place: Place) -> Reading:
        norm = float(oracle.theta0[name_of(*place)].norm())
        return relative(stored(oracle, GROUP, "start", place), norm**2, 1e-5)

    def numbers(place: Place) -> Reading:
        return relative(stored(oracle, GROUP, "numbers", place), oracle.theta0[name_of(*place)].numel(), 0.0)

    yield from each_place(oracle, GROUP, "gram", inner_product)
    yield from each_place(oracle, GROUP, "start", start)
    yield from each_place(oracle, GROUP, "numbers", numbers)
