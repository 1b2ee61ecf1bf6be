# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Which of several models to start from, by validation points alone: test points measure the chosen one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.run.opened import Run


def models(runs: Sequence[Run]) -> Table:
    """A row a regime and run, where the runs start from several pre-trained models."""
    table = Table(
        "models",
        "Which model to start from: accuracy on validation points, mean over tasks",
        [
            Column("regime"),
            Column("run"),
            Column("model"),
            *[Column(name, 1, percent=True) for name in ("zero_shot", "single", "added")],
            Column("recovered", 1, percent=True),
            Column("most"),
        ],
    )
    starts = [run.results.model() for run in runs]
    fingerprints = [start.fingerprint for start in starts if start is not None and start.init == "pretrained"]
    if len(fingerprints) < len(runs) or len(set(fingerprints)) < 2:
        return table
    for regime in dict.fromkeys(name for run in runs for name in run.results.names("addition")):
        able = [place for place, run in enumerate(runs) if regime in run.results.names("addition")]
        rows = [_row(runs[place], regime) for place in able]
        recovered = np.array([row[-1] for row in rows])
        if not np.isfinite(recovered).any():
            continue
        best = int(np.nanargmax(recovered))
        for number, (place, row) in enumerate(zip(able, rows, strict=True)):
            mark = "*" if number == best else ""
            table.rows.append([regime, runs[place].name, fingerprints[place], *row, mark])
    if table.rows:
        table.notes.append(
            "added: θ0 + α Σ τ at the α with the highest normalised accuracy; recovered: its part of what"
            " fine-tuning adds, (added − zero_shot)/(single − zero_shot). No test point has a part in it."
        )
    return table


def _row(run: Run, regime: str) -> list[float]:
    start, alone, sums = (
        run.data("single_task", run.results.start),
        run.data("single_task", regime),
        run.data("addition", regime),
    )
    if sums is None or any(data is None or "validation_accuracy" not in data for data in (start, alone)):
        return [float("nan")] * 4
    assert start is not None and alone is not None
    before = float(start["validation_accuracy"].mean())
    single = float(alone["validation_accuracy"].mean())
    added = float(sums["validation_accuracy"].sel(alpha=sums["chosen_alpha"], method="nearest").mean())
    recovered = (added - before) / (single - before) if single > before else float("nan")
    return [before, single, added, recovered]
