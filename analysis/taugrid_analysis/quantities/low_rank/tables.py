# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Bases without clusters."""

from __future__ import annotations

from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.run.opened import Run

SUMS = ("bases", "recovered")


def low_rank(run: Run) -> Table:
    """Bases by an autoencoder and by principal components."""
    results = run.results
    table = Table(
        "low_rank",
        f"Bases without clusters of {len(results.tasks)} task vectors, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("method"),
            Column("bases"),
            Column("lost", 1, percent=True),
            *(
                column
                for name in SUMS
                for column in (Column(f"{name}, alpha"), Column(name, 1, percent=True))
            ),
        ],
    )
    for regime in results.names("low_rank"):
        data = results.data("low_rank", regime)
        assert data is not None
        for q, method in enumerate(str(data.attrs["methods"]).split(", ")):
            for row, bases in enumerate(data["bases"].to_numpy().astype(int)):
                values = [
                    float(data[name][q, row, place])
                    for place in range(len(SUMS))
                    for name in ("coefficient", "normalized")
                ]
                table.rows.append([regime, method, f"{bases}", float(data["error"][q, row]), *values])
    if table.rows:
        table.notes.append(
            "lost: ‖V − V̂‖² / ‖V‖² of the vectors that are made of the bases again. bases: normalized"
            " accuracy of θ0 + α times their sum, α by validation; recovered: of the sum of the vectors made"
            " again, which of principal components is that of the vectors themselves."
        )
    return table


TABLES = {"low_rank": low_rank}
