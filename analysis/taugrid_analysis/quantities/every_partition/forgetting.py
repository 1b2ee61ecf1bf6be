# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a subtracted basis of one cluster leaves of a task."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers import means
from taugrid_analysis.numbers.measured import Measured, percent
from taugrid_analysis.quantities.bases.partitions import FOUR
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.results import Results

GROUP = "partition_negation"


def lettered(results: Results, method: str) -> list[str]:
    """The regimes in which the first of four tasks, which stands for MNIST, was forgotten by these bases."""
    regimes = []
    for name in results.by_method(GROUP):
        data_method, _, regime = name.partition("/")
        data = results.data(GROUP, name)
        assert data is not None
        members = [results.tasks[int(task)] for task in data["member"].to_numpy()]
        if data_method == method and len(members) == len(FOUR) and members[0] == data.attrs["task"]:
            regimes.append(regime)
    return regimes


def of_cluster(results: Results, name: str, kept: list[bool], what: str) -> Measured | None:
    """Target or control, in percent, of the basis of these members; None where no α keeps the control."""
    data = results.data(GROUP, name)
    assert data is not None
    (place,) = np.flatnonzero((data["cluster"].to_numpy().astype(bool) == kept).all(axis=1))
    value = at_chosen_alpha(results, name, what)[place]
    return None if value is None else percent(value)


def at_chosen_alpha(results: Results, name: str, what: str) -> list[Measured | None]:
    """Target or control of each cluster's basis; None where no α keeps the control."""
    data = results.data(GROUP, name)
    test = accuracies.accuracies(results, GROUP, name, f"test_{what}")
    assert data is not None and test is not None
    alpha = data["alpha"].to_numpy()
    places = [means.place_of(alpha, float(chosen)) for chosen in data["chosen_alpha"].to_numpy()]
    return [
        None if at is None else Measured(float(test.value[row, at]), float(test.error[row, at]))
        for row, at in enumerate(places)
    ]
