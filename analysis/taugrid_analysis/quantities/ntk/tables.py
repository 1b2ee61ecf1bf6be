# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The neural tangent kernel at θ0: where its eigenfunctions are, and its spectrum."""

from __future__ import annotations

import numpy as np
import xarray as xr

from taugrid_analysis.numbers.means import mean
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.quantities.ntk import shares
from taugrid_analysis.run.opened import Run


def localisation(run: Run) -> Table:
    """Own share of the local energy beside its null (paper 1, section 6.1)."""
    table = Table(
        "ntk",
        "NTK: share of the local energy on the trained task's own points, beside its null",
        [
            Column("θ0"),
            Column("task"),
            Column("mean over controls", 3),
            Column("least", 3),
            Column("control"),
            Column("null", 3),
            Column("null's deviation", 3),
            Column("mean − null", 3),
            Column("rank kept", 1),
        ],
    )
    for start in run.results.names("ntk"):
        data = run.data("ntk", start)
        assert data is not None
        share, null = shares.own_share(data["local_energy"].to_numpy()), shares.null_share(data)
        ranks = _ranks(data)
        for index, task in enumerate(run.results.tasks):
            if not np.isfinite(share[index]).any():
                continue
            least = int(np.nanargmin(share[index]))
            row: list[Value] = [
                start,
                task,
                mean(share[index]),
                float(share[index, least]),
                run.results.tasks[least],
            ]
            row += [float(null[0][index]), float(null[1][index])] if null is not None else [None, None]
            row.append(mean(share[index]) - float(null[0][index]) if null is not None else None)
            table.rows.append([*row, float(ranks[index])])
        if null is None:
            table.notes.append(
                f"{start}: the file has no null, so its shares say nothing yet: K(t,t) holds the points'"
                " kernel with themselves and K(t,s) does not, which alone lifts the share above ½."
            )
        else:
            draws = int(data.sizes["draw"])
            table.notes.append(
                f"{start}: null: a second, disjoint sample of the same task as control, same sizes, {draws}"
                " draws; deviation over the draws."
            )
    if table.rows:
        table.notes.append("rank kept: singular vectors above the cut-off, mean over controls and logits.")
    return table


def _ranks(data: xr.Dataset) -> np.ndarray:
    """Every task's rank, mean over the controls and logits that were measured."""
    if "rank" not in data:
        return np.full(data.sizes["task"], np.nan)
    energy = np.isfinite(data["local_energy"].to_numpy()).all(axis=-1)
    rank = np.where(energy, data["rank"].to_numpy().astype(float), np.nan)
    return np.array([mean(row.ravel()) for row in rank])


def spectrum(run: Run) -> Table:
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
    for start in run.results.names("ntk"):
        data = run.data("ntk", start)
        if data is None or "eigenvalues" not in data:
            continue
        ranks, largest = shares.effective_rank(data["eigenvalues"].to_numpy())
        points = data.sizes["point"]
        for task, rank, part in zip(run.results.tasks, ranks, largest, strict=True):
            table.rows.append([start, task, float(rank), float(part), points])
        table.rows.append([start, "mean", mean(ranks), mean(largest), points])
    if table.rows:
        table.notes.append(
            "Effective rank: exp of the entropy of λ/Σλ; equal eigenvalues would give `points`."
        )
    return table


TABLES = {"ntk": localisation, "ntk_spectrum": spectrum}
