# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables 5, 11 and 12 of the bases paper, of several architectures, beside a run of each and their mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page import style
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.papers import BASES, published
from taugrid_analysis.papers.bases.tables import MEASURES, as_shown, mean, named
from taugrid_analysis.papers.published import PublishedTable
from taugrid_analysis.run.opened import Run

PLACES = (5, 11, 12)


def tables(runs: Sequence[Run]) -> list[Table]:
    """A line a partition or mean and method; published of every architecture, ours of every run."""
    return [_table(runs, source) for source in published.tables((BASES,)) if source.number in PLACES]


def _table(runs: Sequence[Run], source: PublishedTable) -> Table:
    keys = list(dict.fromkeys(key for row in source.rows for key in row.values))
    titles = [style.run_title(run, runs) for run in runs]
    table = Table(
        f"table{source.number}",
        f"{source.paper} paper, Table {source.number}. {source.caption}",
        [
            Column("method"),
            Column("partition"),
            *(Column(named("published", key, keys)) for key in keys),
            *(Column(title, 2) for title in titles),
            Column("mean of these", 2),
        ],
    )
    for label in dict.fromkeys(row.label for row in source.rows):
        rows = [row for row in source.rows if row.label == label]
        for position, column in enumerate(source.columns):
            printed: list[Value] = []
            for key in keys:
                found = next((row for row in rows if key in row.values), None)
                printed.append(None if found is None else as_shown(source, found, key, position))
            ours = [_measured(run, source, rows[0], column) for run in runs]
            every = [value for value in ours if value is not None]
            whole = mean(every) if len(every) == len(runs) else None
            table.rows.append([label, column, *printed, *ours, whole])
    table.notes.append(
        "Published are means over three architectures." if keys == ["three"] else "Published of each one."
    )
    table.notes.append(
        f"Ours are of {', '.join(titles)}, without difference; a mean is over all of them, with the mean of"
        " their errors, for their test points are the same."
    )
    if source.doubt:
        table.notes.append(f"?: doubtful, {source.doubt}.")
    return table


def _measured(run: Run, source: PublishedTable, row: published.Row, column: str) -> Measured | None:
    value = MEASURES[source.measure](run, row, column)
    return value if isinstance(value, Measured) and math.isfinite(value) else None
