# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Accuracies of negated models again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

    ranges = oracle.inputs.config.get("negation", {})
    for wide, key in (("", "alpha"), ("wide/", "wide_alpha")):
        known = ranges.get(key)
        if isinstance(known, list):
            yield from choice(oracle, group, wide, [float(alpha) for alpha in known])
        yield from at_chosen_alpha(oracle, group, wide)


def choice(
    oracle: Oracle, group: str, chosen: str = "", among: Sequence[float] | None = None
) -> Iterator[Check]:
    """The α of the subgroup `chosen`, by validation points.

    Of the α `among` these (None: all) that keep the control's part of θ0's accuracy, it is the first of those
    that leave least of the task; NaN where none does.
    """

    def measure(place: Place) -> Reading:
        regime, t = place
        node = oracle.results[f"{group}/{regime}"]
        alpha, left = node["alpha"][()], node["validation_target"][t]
        theta0 = oracle.results[f"single_task/{'pretrained' if oracle.pretrained else 'random'}"]
        start = theta0["control_validation_accuracy"][()]
        kept = node["validation_control"][t] >= node.attrs["control_threshold"] * start
        if among is not None:
            kept &= (np.abs(alpha[:, None] - np.asarray(among)) < 1e-9).any(axis=1)
        held = np.flatnonzero(kept)
        again = alpha[held[np.argmin(left[held])]] if len(held) else np.nan
        return exact(node[f"{chosen}chosen_alpha"][t], again)

    yield from each_place(oracle, group, f"{chosen}chosen_alpha", measure)


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
