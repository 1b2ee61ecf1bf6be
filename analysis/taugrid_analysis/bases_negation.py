# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Table 6 of the bases paper: what a subtracted basis leaves of a task, by what made the basis."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import accuracies, outcomes
from taugrid_analysis.partitions import FOUR
from taugrid_analysis.published import Row
from taugrid_analysis.results import Results
from taugrid_analysis.run import Run
from taugrid_analysis.text_table import Measured, percent

GROUP = "partition_negation"


def negated(run: Run, row: Row, column: str) -> Measured | None:
    """Of the first of four tasks by bases of all their clusters; else the mean over the run's tasks."""
    partition, what = column.split()
    regime = "linear" if row.merge_in == "tangent" else "standard"
    method = {"tangent": "joint"}.get(row.merge_in, row.merge_in)
    if regime in lettered(run.results, method):
        kept = [letter in partition for letter in FOUR]
        return of_cluster(run.results, f"{method}/{regime}", kept, what)
    data = run.data("basis_negation", regime)
    if data is None or {"tangent": "linear"}.get(row.merge_in, row.merge_in) != data.attrs["merge_in"]:
        return None
    if (partition == "MSER") != (int(data["labels"].max()) == 0):
        return None
    found = outcomes.forgetting(run.results, regime, group="basis_negation")
    assert found is not None
    return percent(found.target if what == "target" else found.control)


def lettered(results: Results, method: str) -> list[str]:
    """The regimes in which the first of four tasks, which stands for MNIST, was forgotten by these bases."""
    found = []
    for name in results.by_method(GROUP):
        own, _, regime = name.partition("/")
        data = results.data(GROUP, name)
        assert data is not None
        members = [results.tasks[int(task)] for task in data["member"].to_numpy()]
        if own == method and len(members) == len(FOUR) and members[0] == data.attrs["task"]:
            found.append(regime)
    return found


def of_cluster(results: Results, name: str, kept: list[bool], what: str) -> Measured | None:
    """Target or control, in percent, of the basis of these members; None where no α keeps the control."""
    data = results.data(GROUP, name)
    assert data is not None
    (place,) = np.flatnonzero((data["cluster"].to_numpy().astype(bool) == kept).all(axis=1))
    found = at_chosen_alpha(results, name, what)[place]
    return None if found is None else percent(found)


def at_chosen_alpha(results: Results, name: str, what: str) -> list[Measured | None]:
    """Target or control of each cluster's basis; None where no α keeps the control."""
    data = results.data(GROUP, name)
    test = accuracies.accuracies(results, GROUP, name, f"test_{what}")
    assert data is not None and test is not None
    alpha = data["alpha"].to_numpy()
    places = [outcomes.place_of(alpha, float(chosen)) for chosen in data["chosen_alpha"].to_numpy()]
    return [
        None if at is None else Measured(float(test.value[row, at]), float(test.error[row, at]))
        for row, at in enumerate(places)
    ]


def said(run: Run) -> str:
    """Whose bases ours are."""
    for name in run.results.by_method(GROUP):
        if not lettered(run.results, name.split("/")[0]):
            continue
        data = run.data(GROUP, name)
        assert data is not None
        own = [run.results.tasks[int(task)] for task in data["member"].to_numpy()]
        stand = ", ".join(f"{letter} {task}" for letter, task in zip(FOUR, own, strict=True))
        return f"Ours are of four tasks of this run, {stand}; its own control, {data.attrs['control']}."
    return "Ours are means over the run's tasks, each with the basis nearest to it; its own control."
