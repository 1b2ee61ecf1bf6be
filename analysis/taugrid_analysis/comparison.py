# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' printed numbers beside the run's, or on their own where the run measured another model."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import published
from taugrid_analysis.results import Results
from taugrid_analysis.text_table import Column, Table, Value


def add_published(table: Table, results: Results, identity: published.Identity) -> None:
    """A column of printed numbers and a verdict beside each measured one."""
    model = results.model()
    assert model is not None and identity.key is not None
    measured = [
        ("absolute", "addition", 2),
        ("normalized", "addition", 3),
        ("one_shot_absolute", "one_shot", 4),
        ("one_shot_normalized", "one_shot", 5),
    ]
    sources: set[str] = set()
    for column, measure, index in measured:
        added: list[tuple[str | None, str | None]] = []
        for row in table.rows:
            value, regime = row[index], str(row[0])
            found = published.cells(measure, model.init, column, regime, identity.key)
            if not found or not isinstance(value, float) or not np.isfinite(value):
                added.append((None, None))
                continue
            numbers = [number for _, number in found]
            sources |= {source for source, _ in found}
            low, high = min(numbers), max(numbers)
            added.append(
                (
                    f"{low:.1f}" if low == high else f"{low:.1f}…{high:.1f}",
                    published.verdict(100 * value, numbers),
                )
            )
        if any(cell is not None for cell, _ in added):
            table.columns += [Column(f"{column} published"), Column(f"{column} verdict")]
            for row, (cell, judged) in zip(table.rows, added, strict=True):
                row += [cell, judged]
    table.notes.append(f"Published for {identity.title}: {', '.join(sorted(sources)) or 'no such cell'}.")


def orientation(results: Results, identity: published.Identity) -> list[Table]:
    """The papers' own tables, when this run cannot be judged by them."""
    if not results.names("addition"):
        return []
    model = results.model()
    init = model.init if model is not None else "pretrained"
    keys = published.models()
    found = []
    for source in published.tables():
        if source.measure != "addition" or source.init != init or source.paper != "Tangent":
            continue
        columns = [Column("regime"), Column("method in the paper")]
        for title in keys.values():
            columns += [Column(f"{title.removeprefix('CLIP ')} {name[:4]}", 1) for name in source.columns]
        rows: list[list[Value]] = []
        for row in source.rows:
            numbers: list[Value] = []
            for key in keys:
                printed = row.values[key]
                numbers += [*printed, *[None] * (len(source.columns) - len(printed))]
            rows.append([row.regime, row.label, *numbers])
        table = Table(
            "published", f"{source.paper} paper, Table {source.number}. {source.caption}, %", columns, rows
        )
        table.notes.append(
            f"For orientation only, without verdict: {identity.reason}, so its accuracies need not agree."
        )
        found.append(table)
    return found
