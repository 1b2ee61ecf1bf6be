# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Several fine-tunings of one task: every rate, number of steps and seed, the seed running fastest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from taugrid_analysis.quantities.training.recompute import setting
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact, names, places, stored
from taugrid_analysis.recompute.oracle import Oracle

SETTINGS = ("learning_rate", "steps", "seed")  # of /variants/R


def checks(oracle: Oracle) -> Iterator[Check]:
    group = "variants"
    settings = oracle.inputs.config.get(group, {})

    def of(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, t = place
            every = product(
                settings.get("learning_rate") or [setting(oracle, regime, "learning_rate")],
                settings.get("steps") or [setting(oracle, regime, "steps")],
                range(int(settings.get("seeds", 1))),
            )
            rows = list(every) * len(set(oracle.sources))
            again = float(rows[t][SETTINGS.index(name)])
            return exact(stored(oracle, group, name, place), again)

        return measure

    for name in SETTINGS if names(oracle, group) else ():
        yield Check(group, name, places(oracle, group, name), of(name))
