# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Accuracies of sums of all task vectors again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.means import normalised
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact
from taugrid_analysis.recompute.common import each_place
from taugrid_analysis.recompute.models import SPLITS, accuracies, chosen_row
from taugrid_analysis.recompute.oracle import Oracle
from taugrid_analysis.run.group import SUMS


def checks(oracle: Oracle) -> Iterator[Check]:
    group = "addition"
    everything = range(len(oracle.tasks))

    def right(split: str, place: Place) -> Array:
        regime, a, t = place
        alpha = float(oracle.results[f"{group}/{regime}/alpha"][a])
        index = f"{group}/{regime}/{SPLITS[split]}"
        return oracle.outcome(regime, dict.fromkeys(everything, alpha), t, index, split)[0].numpy()

    for split in SPLITS:
        yield from accuracies(oracle, group, f"{split}_accuracy", partial(right, split))

    def follows(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            node, single = oracle.results[f"{group}/{place[0]}"], oracle.results[f"single_task/{place[0]}"]
            best = chosen_row(node["validation_accuracy"][()], single["validation_accuracy"][()])
            if name == "chosen_alpha":
                return exact(node[name][()], node["alpha"][best])
            one_shot = int(np.flatnonzero(node["alpha"][()] == 1.0)[0])
            row = node["test_accuracy"][one_shot if name.startswith("one_shot") else best]
            again = (
                normalised(row, single["accuracy"][()]).mean() if name.endswith("normalized") else row.mean()
            )
            return exact(node[name][()], again)

        return measure

    for name in SUMS:
        yield from each_place(oracle, group, name, follows(name))
