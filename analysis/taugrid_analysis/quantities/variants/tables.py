# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Several fine-tunings of one task: what each was trained with, and how well it does."""

from __future__ import annotations

from taugrid_analysis.page.cells import cell
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.run.opened import Run


def variants(run: Run) -> Table:
    table = Table(
        "variants",
        "Fine-tunings of the same data, test accuracy of each",
        [
            Column("regime"),
            Column("model"),
            Column("learning rate", 2, significant=True),
            Column("steps"),
            Column("seed"),
            Column("accuracy", 1, percent=True),
        ],
    )
    for regime in run.results.names("variants"):
        data = run.data("variants", regime)
        assert data is not None
        known = regime in run.tasks.index.get_level_values("regime")
        for place, name in enumerate(run.results.tasks):
            variant = data.isel(task=place)
            accuracy: Value = cell(run.tasks.loc[(regime, name)], "accuracy") if known else None
            numbers = [float(variant["learning_rate"]), int(variant["steps"]), int(variant["seed"])]
            table.rows.append([regime, name, *numbers, accuracy])
    if table.rows:
        table.notes.append(
            "Equal seeds: the same order of the training points. The table of averages holds the models'"
            " pairs, triples and all of them; every set is measured on the same points."
        )
    return table


TABLES = {"variants": variants}
