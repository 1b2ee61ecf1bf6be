# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Table 6 of the bases paper: what a subtracted basis leaves of a task, by what made the basis."""

from __future__ import annotations

from taugrid_analysis.numbers.measured import Measured, percent
from taugrid_analysis.papers.published import Row
from taugrid_analysis.quantities.bases.partitions import FOUR
from taugrid_analysis.quantities.every_partition.forgetting import GROUP, lettered, of_cluster
from taugrid_analysis.quantities.negation import forgetting
from taugrid_analysis.run.opened import Run


def negated(run: Run, row: Row, column: str) -> Measured | None:
    """What the first of four tasks keeps, by bases of all their clusters; else the mean over tasks."""
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
    outcome = forgetting.forgetting(run.results, regime, group="basis_negation")
    assert outcome is not None
    return percent(outcome.target if what == "target" else outcome.control)


def said(run: Run) -> str:
    """Whose bases ours are."""
    for name in run.results.by_method(GROUP):
        if not lettered(run.results, name.split("/")[0]):
            continue
        data = run.data(GROUP, name)
        assert data is not None
        tasks = [run.results.tasks[int(task)] for task in data["member"].to_numpy()]
        stand = ", ".join(f"{letter} {task}" for letter, task in zip(FOUR, tasks, strict=True))
        return f"Ours are of four tasks of this run, {stand}; its own control, {data.attrs['control']}."
    return "Ours are means over the run's tasks, each with the basis nearest to it; its own control."
