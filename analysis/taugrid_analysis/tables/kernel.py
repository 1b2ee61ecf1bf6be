# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The loss's curvature at the fine-tuned models, and the neural tangent kernel at θ0."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import measures
from taugrid_analysis.measures import mean
from taugrid_analysis.results import Results
from taugrid_analysis.text_table import Column, Table


def smoothness(results: Results) -> Table:
    table = Table(
        "smoothness",
        "Largest Hessian eigenvalue in absolute value, training loss at θ0 + τ",
        [
            Column("regime"),
            Column("task"),
            Column("lambda_max", 2),
            Column("residual", 1, scientific=True),
            Column("products"),
        ],
    )
    for regime in results.names("smoothness"):
        record = results.smoothness(regime)
        assert record is not None
        for index, task in enumerate(results.tasks):
            table.rows.append(
                [
                    regime,
                    task,
                    float(record.lambda_max[index]),
                    float(record.residual[index]),
                    int(record.hvp_count[index]),
                ]
            )
        table.notes.append(f"{regime}: {record.method}; residual ‖Hv−λv‖/|λ|.")
    return table


def localisation(results: Results) -> Table:
    table = Table(
        "ntk",
        "NTK: share of the local energy on the trained task's own points (0.5 would be no localisation)",
        [
            Column("θ0"),
            Column("task"),
            Column("mean over controls", 3),
            Column("least", 3),
            Column("control"),
        ],
    )
    for start in results.names("ntk"):
        record = results.ntk(start)
        assert record is not None
        share = measures.own_share(record.local_energy)
        for index, task in enumerate(results.tasks):
            if not np.isfinite(share[index]).any():
                continue
            least = int(np.nanargmin(share[index]))
            table.rows.append(
                [start, task, mean(share[index]), float(share[index, least]), results.tasks[least]]
            )
    return table


def spectrum(results: Results) -> Table:
    table = Table(
        "ntk_spectrum",
        "NTK: spectrum of K(t,t), mean over logits",
        [
            Column("θ0"),
            Column("task"),
            Column("effective rank", 1),
            Column("largest's part", 3),
            Column("points"),
        ],
    )
    for start in results.names("ntk"):
        record = results.ntk(start)
        if record is None or record.eigenvalues is None:
            continue
        ranks, largest = measures.effective_rank(record.eigenvalues)
        points = record.eigenvalues.shape[-1]
        for task, rank, part in zip(results.tasks, ranks, largest, strict=True):
            table.rows.append([start, task, float(rank), float(part), points])
        table.rows.append([start, "mean", mean(ranks), mean(largest), points])
    if table.rows:
        table.notes.append(
            "Effective rank: exp of the entropy of λ/Σλ; equal eigenvalues would give `points`."
        )
    return table
