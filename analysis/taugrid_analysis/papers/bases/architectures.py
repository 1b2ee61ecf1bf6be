# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables 5, 11 and 12 of the bases paper, of several architectures, beside a run of each.

Where the paper has several architectures, the mean over the runs stands there, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page import style
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.papers import BASES, published
from taugrid_analysis.papers.bases.tables import MEASURES, as_shown, mean, named
from taugrid_analysis.papers.published import PublishedTable
from taugrid_analysis.run.opened import Run

PLACES = (5, 11, 12)
THREE = ["three"]  # the key of what the paper printed as a mean over three architectures
READ = ("bases", "every_partition")  # the groups whose accuracies the tables show


def tables(runs: Sequence[Run]) -> list[Table]:
    """A line a partition or mean and method; published of every architecture, ours of every run.

    Raises InputError where two runs are of the same model, or of other tasks or test points.
    """
    for place, run in enumerate(runs):
        for before in runs[:place]:
            _require_comparable(run, before)
    return [_table(runs, source) for source in published.tables((BASES,)) if source.number in PLACES]


def _table(runs: Sequence[Run], source: PublishedTable) -> Table:
    keys = list(dict.fromkeys(key for row in source.rows for key in row.values))
    titles = [style.run_title(run, runs) for run in runs]
    averaged = keys == THREE or len(keys) > 1  # of one architecture alone a mean stands for nothing published
    table = Table(
        f"table{source.number}",
        f"{source.paper} paper, Table {source.number}. {source.caption}",
        [
            Column("method"),
            Column("partition"),
            *(Column(named("published", key, keys)) for key in keys),
            *(Column(title, 2) for title in titles),
            *([Column("mean of these", 2)] if averaged else []),
        ],
    )
    for label in dict.fromkeys(row.label for row in source.rows):
        rows = [row for row in source.rows if row.label == label]
        for position, column in enumerate(source.columns):
            printed: list[Value] = []
            for key in keys:
                entry = next((row for row in rows if key in row.values), None)
                printed.append(None if entry is None else as_shown(source, entry, key, position))
            ours = [_measured(run, source, rows[0], column) for run in runs]
            every = [value for value in ours if value is not None]
            whole = mean(every) if len(every) == len(runs) else None
            table.rows.append([label, column, *printed, *ours, *([whole] if averaged else [])])
    table.notes.append(
        "Published are means over three architectures."
        if keys == THREE
        else "Published of each one."
        if averaged
        else f"Published of {published.title(keys[0])} alone: no mean."
    )
    mean_told = (
        "; a mean is over all of them, with the mean of their errors, for their test points are the same"
    )
    table.notes.append(f"Ours are of {', '.join(titles)}, without difference{mean_told if averaged else ''}.")
    if source.doubt:
        table.notes.append(f"?: doubtful, {source.doubt}.")
    return table


def _require_comparable(run: Run, other: Run) -> None:
    """Another model on the same tasks and test points, or an InputError."""
    models = [side.results.model() for side in (run, other)]
    known = [(model.architecture, model.name, model.parameters) for model in models if model is not None]
    if run.path.resolve() == other.path.resolve() or (len(known) == len(models) and known[0] == known[1]):
        raise InputError(f"has the model of {other.path} again", run.path, "a run of another architecture")
    if run.results.tasks != other.results.tasks:
        raise InputError(f"has other tasks than {other.path}", run.path, ", ".join(other.results.tasks))
    for group in READ:
        for name in run.results.members(group):
            every = [side.data(group, name) for side in (run, other)]
            rows = [data["sample_index"] for data in every if data is not None and "sample_index" in data]
            if len(rows) == len(every) and not np.array_equal(rows[0].to_numpy(), rows[1].to_numpy()):
                where = f"{run.path}/{group}/{name}/sample_index"
                raise InputError("has other test points", where, f"those of {other.path}")


def _measured(run: Run, source: PublishedTable, row: published.Row, column: str) -> Measured | None:
    value = MEASURES[source.measure](run, row, column)
    return value if isinstance(value, Measured) and math.isfinite(value) else None
