# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Models of random subsets of the tasks again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.merging.recompute import is_taken, merged
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact, names, places
from taugrid_analysis.recompute.models import SPLITS, accuracies, chosen_means, right_at
from taugrid_analysis.recompute.oracle import Oracle, Parameters
from taugrid_analysis.run.group import CHOSEN

GROUP = "subsets"
SLOW = 20  # places of one quantity: each is a merge


def checks(oracle: Oracle) -> Iterator[Check]:
    if not names(oracle, GROUP):
        return
    for name in CHOSEN:
        yield Check(GROUP, name, places(oracle, GROUP, name), _follows(oracle, name))
    settings = dict(oracle.inputs.config.get(GROUP, {}).get("merge", {}))
    if not is_taken(settings.get("method", ""), settings):
        return

    @lru_cache(2)
    def direction(regime: str, members: tuple[int, ...]) -> Parameters:
        return merged(settings["method"], settings, [oracle.tau(regime, t) for t in members])

    def right(split: str, place: Place) -> Array:
        regime, s, *row, t = place
        node = oracle.results[f"{GROUP}/{regime}"]
        alpha = float(node["alpha"][row[0]] if row else node["coefficient"][s])
        of = tuple(_members(oracle, regime, s))
        index = f"{GROUP}/{regime}/{SPLITS[split]}"
        return right_at(oracle, regime, direction(regime, of), alpha, of, index, t, split)

    for split, name in (("test", "accuracy"), ("validation", "validation_accuracy")):
        for check in accuracies(oracle, GROUP, name, partial(right, split), SLOW):
            check.places[:] = [place for place in check.places if place[-1] in _members(oracle, *place[:2])]
            yield check


def _members(oracle: Oracle, regime: str, s: int) -> list[int]:
    return [int(t) for t in np.flatnonzero(oracle.results[f"{GROUP}/{regime}/sets"][s])]


def _follows(oracle: Oracle, name: str) -> Callable[[Place], Reading]:
    """What the subset's validation points choose, and the means over its tasks."""

    def measure(place: Place) -> Reading:
        regime, s = place
        node, single = oracle.results[f"{GROUP}/{regime}"], oracle.results[f"single_task/{regime}"]
        of = _members(oracle, regime, s)
        if not of:  # of its tasks none is merged
            return exact(node[name][s], float("nan"))
        validation, accuracy = (node[what][s][..., of] for what in ("validation_accuracy", "accuracy"))
        again = chosen_means(node["alpha"][()], validation, accuracy, single, of)
        return exact(node[name][s], again[name])

    return measure
