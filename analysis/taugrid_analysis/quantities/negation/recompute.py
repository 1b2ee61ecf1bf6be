# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Accuracies of negated models again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact
from taugrid_analysis.recompute.common import each_place
from taugrid_analysis.recompute.models import SPLITS, accuracies, rows_of
from taugrid_analysis.recompute.oracle import Oracle


def checks(oracle: Oracle) -> Iterator[Check]:
    group, control = "negation", len(oracle.tasks)

    def right(split: str, on_control: bool, place: Place) -> Array:
        regime, t, a = place
        alpha = float(oracle.results[f"{group}/{regime}/alpha"][a])
        index = f"{group}/{regime}/{rows_of(split, on_control)}"
        where = control if on_control else t
        return oracle.outcome(regime, {t: -alpha}, where, index, split)[0].numpy()

    for split in SPLITS:
        yield from accuracies(oracle, group, f"{split}_target", partial(right, split, False))
        yield from accuracies(oracle, group, f"{split}_control", partial(right, split, True))

    for wide in ("", "wide/"):
        yield from at_chosen_alpha(oracle, group, wide)


def at_chosen_alpha(oracle: Oracle, group: str, chosen: str = "") -> Iterator[Check]:
    """Target and control in the subgroup `chosen` are the group's test curves at the α that it chose."""

    def follows(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, t = place
            node = oracle.results[f"{group}/{regime}"]
            alpha, value = node[f"{chosen}chosen_alpha"][t], node[f"{chosen}{name}"][t]
            if np.isnan(alpha):
                return exact(value, float("nan"))
            at = int(np.argmin(np.abs(node["alpha"][()] - alpha)))
            return exact(value, node[f"test_{name}"][t, at])

        return measure

    for name in ("target", "control"):
        yield from each_place(oracle, group, f"{chosen}{name}", follows(name))
