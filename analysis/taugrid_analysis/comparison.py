# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' printed numbers beside the run's, or on their own where the run measured another model."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import outcomes, published
from taugrid_analysis.measures import mean
from taugrid_analysis.records import Negation, SingleTask
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
        if source.measure != "addition" or source.init != init or source.paper != "Tangent" or source.setting:
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


NOT_MEASURED = "not measured by this run"


def paper_tables(results: Results, paper: str) -> list[Table]:
    """Every table of one paper: a line a printed number, this run's beside it."""
    identity = published.identify(results)
    return [_paper_table(results, source, identity) for source in published.tables((paper,))]


def _paper_table(results: Results, source: published.PublishedTable, identity: published.Identity) -> Table:
    table = Table(
        f"table{source.number}",
        f"{source.paper} paper, Table {source.number}. {source.caption}",
        [
            Column("method"),
            Column("regime"),
            Column("model"),
            Column("quantity"),
            Column("published"),
            Column("ours", 4, significant=True),
            Column("difference", 3, significant=True),
            Column("verdict"),
            Column("remark"),
        ],
    )
    for row in source.rows:
        for key in list(row.values) or [""]:
            printed = row.values.get(key, [None] * len(source.columns))
            model = published.title(key) if key else ""
            for position, number in enumerate(printed):
                column = source.columns[position]
                cells = _cells(results, source, identity, row.regime, key, column, number)
                shown = None if number is None else source.as_printed(position, number)
                table.rows.append([row.label, row.regime, model, column, shown, *cells])
    table.notes.append("Accuracies in percent, differences in points.")
    if source.picture:
        table.notes.append("The paper's text holds this table as a picture: no printed numbers here.")
    if source.setting:
        table.notes.append(f"Published for {source.setting}: no run here measures that.")
    elif identity.key is None:
        table.notes.append(f"No verdict: {identity.reason}, so the numbers need not agree.")
    else:
        table.notes.append("Verdict: against the range of the papers that print the same cell.")
    if source.measure == "cost":
        table.notes.append("This run's own costs: the table cost.")
    return table


def _cells(
    results: Results,
    source: published.PublishedTable,
    identity: published.Identity,
    regime: str,
    key: str,
    column: str,
    printed: published.Number | None,
) -> list[Value]:
    """ours, difference, verdict, remark"""
    model = results.model()
    other_start = model is not None and model.init != source.init
    other_model = bool(key) and bool(identity.title) and published.title(key) != identity.title
    value = None if source.setting or other_start or other_model else measured(results, column, regime)
    if value is None or not np.isfinite(value):
        return [None, None, None, NOT_MEASURED]
    accuracy = column != "seconds"
    ours = 100 * value if accuracy else value
    if not isinstance(printed, float):
        return [ours, None, None, identity.differs]
    remark = identity.differs or ("" if accuracy else "other machine")
    judged = None
    if not remark:
        same = published.cells(source.measure, source.init, column, regime, key)
        judged = published.verdict(ours, [number for _, number in same])
    return [ours, ours - printed, judged, remark]


def measured(results: Results, column: str, regime: str) -> float | None:
    """This run's number for a column of the papers' tables: a fraction, or seconds."""
    start = results.single_task(results.start)
    if regime == "pretrained":
        if start is None:
            return None
        return start.control_accuracy if column.endswith("control") else mean(start.accuracy)
    joint, added = results.multitask(regime), results.addition(regime)
    single, negated, cost = results.single_task(regime), results.negation(regime), results.cost(regime)
    if column == "seconds":
        return cost.seconds_per_step if cost is not None else None
    if column == "single":
        return mean(single.accuracy) if single is not None else None
    if column.endswith(("target", "control")):
        return _forgotten(negated, start, column) if negated is not None else None
    if joint is not None:
        return outcomes.joint(results, regime, joint)[column]
    return float(getattr(added, column)) if added is not None else None


def _forgotten(record: Negation, start: SingleTask | None, column: str) -> float | None:
    if column.startswith("one_shot"):
        found = outcomes.one_shot_forgetting(record, start)
    elif column.startswith("wide"):
        if record.wide is None:
            return None
        found = outcomes.forgetting(record.wide)
    else:
        found = outcomes.forgetting(record.narrow)
    return found.target if column.endswith("target") else found.control
