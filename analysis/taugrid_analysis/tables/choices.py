# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""How much a merging method depends on a choice in which public implementations differ."""

from __future__ import annotations

from itertools import combinations

from taugrid_analysis import differences, merges
from taugrid_analysis.run import Run
from taugrid_analysis.tables.cells import SAMPLE
from taugrid_analysis.text_table import Column, Measured, Table


def choices(run: Run) -> Table:
    """A line a regime and method that the run has under several names: its range over them."""
    table = Table(
        "choices",
        "Merging methods under several choices of their parameters, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("method"),
            Column("choice"),
            Column("alpha"),
            Column("normalized", 1, percent=True),
            Column("absolute", 1, percent=True),
            Column("− first", 2, percent=True),
            Column("range", 1, percent=True),
        ],
    )
    frame = merges.of_run(run)
    for (regime, of), rows in frame.groupby(["regime", "of"], sort=False) if len(frame) else ():
        if len(rows) < 2:
            continue
        # The method under its own name has the published defaults.
        rows = rows.sort_values("method", key=lambda names: names != of, kind="stable")
        first = rows["method"].iloc[0]
        apart = [
            differences.merged(run.results, f"{one}/{regime}", f"{other}/{regime}")
            for one, other in combinations(rows["method"], 2)
        ]
        widest = max(apart, key=lambda found: abs(found.mean))
        for place, row in enumerate(rows.to_dict("records")):
            change = differences.merged(run.results, f"{row['method']}/{regime}", f"{first}/{regime}")
            table.rows.append(
                [
                    str(regime),
                    str(of),
                    row["method"],
                    row["coefficient"],
                    Measured(row["normalized"], row["normalized_error"]),
                    Measured(row["absolute"], row["absolute_error"]),
                    Measured(change.mean, change.mean_error) if place else None,
                    Measured(abs(widest.mean), widest.mean_error) if not place else None,
                ]
            )
    if table.rows:
        table.notes += [
            "choice: the name in [merging] methods. − first: of the absolute accuracy, less that of the"
            " method's first line, on the same points. range: the two choices that lie furthest apart, with"
            " the paired error of their difference, which says nothing of having looked for them. α by"
            " validation, each.",
            SAMPLE,
        ]
    return table
