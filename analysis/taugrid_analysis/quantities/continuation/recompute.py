# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The first and the last of the further steps again."""

from __future__ import annotations

from collections.abc import Iterator

from taugrid_analysis.quantities.tau_jp.recompute import mean_square_product
from taugrid_analysis.recompute.checks import Check, Place, Reading, places, relative, share, stored
from taugrid_analysis.recompute.oracle import Oracle


def checks(oracle: Oracle) -> Iterator[Check]:
    """It begins with the task vectors of the regime that it starts from, and ends with its own."""
    group = "continuation"

    def owner(regime: str, step: int) -> str:
        start = oracle.results[f"{group}/{regime}"].attrs.get("start", "linear")
        return regime if step else (start.decode() if isinstance(start, bytes) else str(start))

    def ends(variable: str) -> list[Place]:
        kept = []
        for place in places(oracle, group, variable):
            last = len(oracle.results[f"{group}/{place[0]}/step"]) - 1
            if place[1] in (0, last):
                kept.append(place)
        return kept

    def product(place: Place) -> Reading:
        regime, step, a, b = place
        x, _ = oracle.points(f"{group}/{regime}/sample_index", b)
        again = mean_square_product(oracle, owner(regime, step), a, x, b)
        return relative(stored(oracle, group, "tau_jp", place), again)

    def accuracy(place: Place) -> Reading:
        regime, step, t = place
        index = f"{group}/{regime}/sample_index"
        again, _ = oracle.accuracy_and_loss(owner(regime, step), {t: 1.0}, t, index)
        count = len(oracle.rows(index, t))
        return share(stored(oracle, group, "accuracy", place), again, count)

    for variable, measure in (("tau_jp", product), ("accuracy", accuracy)):
        every = ends(variable)
        if every:
            yield Check(group, variable, every, measure)
