# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Further regularised steps."""

from __future__ import annotations

from taugrid_analysis.numbers.means import mean
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.quantities.continuation import trace
from taugrid_analysis.run.opened import Run


def continuation(run: Run) -> Table:
    """Regularised steps after linear fine-tuning (paper 3, figure 3)."""
    table = Table(
        "continuation",
        "Further steps with the τJp regulariser from linear task vectors, α = 1",
        [
            Column("regime"),
            Column("step"),
            Column("mean τJp", 4),
            Column("pairs normalized", 1, percent=True),
            Column("all normalized", 1, percent=True),
            Column("pair of most τJp"),
            Column("its τJp", 4),
            Column("its normalized", 1, percent=True),
            Column("pair of least τJp"),
            Column("that one's τJp", 4),
            Column("that one's normalized", 1, percent=True),
        ],
    )
    for regime in run.results.names("continuation"):
        record = run.data("continuation", regime)
        assert record is not None
        products = trace.pair_trace(record, run.results.pairs)
        extremes = trace.extreme_pairs(record, run.results.pairs)
        accuracy = record["pair_normalized"].to_numpy()
        for place, step in enumerate(record["step"].to_numpy()):
            row: list[Value] = [regime, int(step), mean(products[place]), mean(accuracy[place])]
            row.append(float(record["normalized"][place]))
            for pair in extremes:
                row += [
                    run.results.pair_name(pair),
                    float(products[place, pair]),
                    float(accuracy[place, pair]),
                ]
            table.rows.append(row)
    if table.rows:
        table.notes += [
            "The pairs of most and least τJp are those of the first step listed.",
            "Without ±: which points are right is not stored along the steps.",
        ]
    return table


TABLES = {"continuation": continuation}
