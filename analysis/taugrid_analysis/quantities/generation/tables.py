# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Tasks that are answered by texts: what models say, measured by each task's own metric."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.run.opened import Run


def generation(run: Run) -> Table:
    """A row a model and task; of sums of all task vectors those at the α that addition chose."""
    table = Table(
        "generation",
        "Tasks answered by texts, decoded greedily: each task's own metric on test points",
        [
            Column("model"),
            Column("task"),
            Column("metric"),
            Column("value", 3),
            Column("exact match", 1, percent=True),
            Column("F1", 1, percent=True),
            Column("token accuracy", 1, percent=True),
            Column("Pearson", 3),
            Column("Spearman", 3),
            Column("no number"),
        ],
    )
    metrics = run.results.metrics
    for regime in run.results.names("generation"):
        data = run.data("generation", regime)
        assert data is not None
        for t, task in enumerate(run.results.tasks):
            if not np.isnan(data["token_accuracy"].to_numpy()[t]):
                values = {str(name): data[name].to_numpy()[t] for name in data}
                table.rows.append([regime, task, metrics[t], *_measures(values)])
    for regime in run.results.names("generation_sum"):
        data, added = run.data("generation_sum", regime), run.data("addition", regime)
        assert data is not None
        alpha = data["alpha"].to_numpy()
        wanted = alpha if added is None else alpha[np.isclose(alpha, float(added["chosen_alpha"]))]
        for a in np.flatnonzero(np.isin(alpha, wanted)):
            for t, task in enumerate(run.results.tasks):
                if not np.isnan(data["token_accuracy"].to_numpy()[a, t]):
                    curves = [name for name in data if data[name].dims == ("alpha", "task")]
                    values = {str(name): data[name].to_numpy()[a, t] for name in curves}
                    name = f"{regime}, sum at α = {alpha[a]:g}"
                    table.rows.append([name, task, metrics[t], *_measures(values)])
    if table.rows:
        table.notes.append(
            "Greedy decoding; what is no number counts as 0 in the correlations, NaN of constants."
            " Exact match and F1 as SQuAD has them; token accuracy by teacher forcing."
        )
    return table


def _measures(values: dict[str, float]) -> list[float | int | None]:
    names = ("value", "exact_match", "f1", "token_accuracy", "pearson", "spearman")
    cells: list[float | int | None] = [float(values[name]) for name in names]
    failures = values["no_number"]
    return [*cells, None if np.isnan(failures) else int(failures)]


TABLES = {"generation": generation}
