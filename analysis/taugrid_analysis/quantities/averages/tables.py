# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Averages of models beside ensembles."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.run.opened import Run


def averages(run: Run) -> Table:
    """Weights against ensembles, by the number of models."""
    kinds = ("weights", "logits", "features")
    table = Table(
        "averages",
        "Averages of models: mean accuracy over sets and their tasks",
        [
            Column("regime"),
            Column("models"),
            Column("sets"),
            *(Column(kind, 4) for kind in kinds),
            Column("weights − logits", 4),
            Column("correlation with logits", 3),
            Column("gap of theorem 4.3", 4),
        ],
    )
    for regime in run.results.names("averages"):
        data = run.data("averages", regime)
        assert data is not None
        size = data["sets"].to_numpy().sum(axis=1)
        for count in np.unique(size):
            rows = {kind: np.nanmean(data[kind].to_numpy()[size == count], axis=1) for kind in kinds}
            both = rows["weights"], rows["logits"]
            varies = len(both[0]) > 2 and all(values.std() > 0 for values in both)
            related = float(np.corrcoef(*both)[0, 1]) if varies else float("nan")
            means: list[Value] = [float(values.mean()) for values in rows.values()]
            difference = float((both[0] - both[1]).mean())
            apart = float(np.nanmean(data["gap"].to_numpy()[size == count])) if "gap" in data else None
            table.rows.append([regime, int(count), len(both[0]), *means, difference, related, apart])
    if table.rows:
        table.notes.append(
            "Weights: f of the mean θ; logits, features: means of the models' logits, of their outputs."
            " Correlation (Pearson) of the two accuracies over sets."
        )
        table.notes.append(
            "Gap of theorem 4.3, by which task vectors come apart: ‖u − v‖/‖v − f(θ0)‖ of outputs, mean over"
            " points, u of θ0 + Σ τ/(k + 1), v the mean of f(θ0) and of the k models' outputs. 0: the sum is"
            " what each vector does alone."
        )
    return table


TABLES = {"averages": averages}
