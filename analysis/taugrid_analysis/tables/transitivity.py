# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Is cross-task linearity transitive (paper 5, conjecture 4.1)? Over triples of tasks, by their pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from taugrid_analysis.records import Array, Floats
from taugrid_analysis.regimes import is_linear
from taugrid_analysis.run import Run
from taugrid_analysis.text_table import Column, Table

PERMUTATIONS, SEED = 9999, 0


def triples(pairs: Array) -> Array:
    """[K,3]: the places of the three pairs of every triple of which all are measured."""
    place = {frozenset(pair): index for index, pair in enumerate(pairs.tolist())}
    found = []
    for three in combinations(sorted(set(pairs.ravel().tolist())), 3):
        sides = [frozenset(pair) for pair in combinations(three, 2)]
        if all(side in place for side in sides):
            found.append([place[side] for side in sides])
    return np.array(found, dtype=int).reshape(-1, 3)


def excess(errors: Floats, chosen: Array) -> Floats:
    """[…, K]: the largest error of a triple over the next; 1 where the third satisfies what two do."""
    ranked = np.sort(errors[..., chosen], axis=-1)
    return np.asarray(ranked[..., 2] / ranked[..., 1])


def transitivity(run: Run) -> Table:
    """At the last layer, α nearest ½."""
    table = Table(
        "transitivity",
        "Transitivity of cross-task linearity: the largest error of a triple of tasks over the next",
        [
            Column("regime"),
            Column("triples"),
            Column("mean", 3),
            Column("most", 3),
            Column("mean by chance", 3),
            Column("p", 4),
        ],
    )
    for regime in run.results.names("linearity"):
        chosen = triples(run.results.pairs)
        if not len(chosen) or is_linear(regime):
            continue
        errors = run.pairs.loc[regime]["linearity"].to_numpy(dtype=float)
        if not np.isfinite(errors).all() or not (errors > 0).all():
            continue
        found = excess(errors, chosen)
        shuffled = np.random.default_rng(SEED).permuted(np.tile(errors, (PERMUTATIONS, 1)), axis=1)
        means = np.append(excess(shuffled, chosen).mean(axis=1), found.mean())
        reached = float((means <= found.mean() * (1 + 1e-12)).mean())
        numbers = [float(found.mean()), float(found.max()), float(means[:-1].mean()), reached]
        table.rows.append([regime, len(chosen), *numbers])
    if table.rows:
        table.notes.append(
            "Where two pairs of a triple hold to some error, transitivity says that the third does: the two"
            " largest errors are alike. Error: ‖u − v‖/‖f(θ₁) − f(θ₂)‖ of the last layer. By chance, p: over"
            f" {PERMUTATIONS:,} permutations of the pairs' errors, as small a mean."
        )
    return table
