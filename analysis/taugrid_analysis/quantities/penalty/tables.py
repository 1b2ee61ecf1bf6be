# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Regularised regimes and the forms of their penalty, beside linear fine-tuning without one (paper 3)."""

from __future__ import annotations

from collections.abc import Sequence

from taugrid_analysis.page.cells import SAMPLE, cells
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.quantities.penalty.form import is_penalised, penalty_form
from taugrid_analysis.run.opened import Run

NUMBERS = ("single", "absolute", "normalized", "one_shot_absolute", "one_shot_normalized")


def _validated(run: Run, regime: str) -> float:
    """Accuracy of θ0 + Σ τ on validation, mean over tasks; NaN where α = 1 was not measured."""
    data = run.data("addition", regime)
    if data is None:
        return float("nan")
    return float(data["validation_accuracy"].sel(alpha=1.0).mean()) if 1.0 in data["alpha"] else float("nan")


def penalty(runs: Sequence[Run]) -> Table:
    """A line a run and regime: what it costs the single tasks stands beside what the sum keeps of them."""
    table = Table(
        "penalty",
        "The τJp penalty in its forms, test accuracy, mean over tasks",
        [
            *([Column("run")] if len(runs) > 1 else []),
            Column("regime"),
            Column("penalty"),
            Column("others"),
            Column("λ", 3, significant=True),
            Column("validation", 1, percent=True),
            *[Column(name, 1, percent=True) for name in NUMBERS],
            Column("mean τJp", 4),
        ],
    )
    for run in runs:
        regimes = [name for name in run.regimes if is_penalised(name)]
        for regime in ["linear", *regimes] if regimes else []:
            if regime not in run.summary.index or run.data("addition", regime) is None:
                continue
            row = run.summary.loc[regime]
            form = penalty_form(run, regime)
            named = [run.name] if len(runs) > 1 else []
            table.rows.append(
                [
                    *named,
                    regime,
                    form.form,
                    form.others,
                    form.weight,
                    _validated(run, regime),
                    *cells(row, *NUMBERS),
                    float(row["tau_jp"]),
                ]
            )
    if table.rows:
        table.notes += [
            "penalty: mean over points of ‖J(x)(θ − θ0)‖², as equation 10, or of the norm itself, as the"
            " authors' code; others: penalties of several other tasks in one step added up, as equation 10,"
            " or their mean, as that code. The same λ weighs more or less in another form.",
            "normalized: over single, its own regime's: where a penalty lowers single, the ratio rises for"
            " that alone.",
            "validation: one_shot_absolute on the validation splits, by which λ is chosen.",
            SAMPLE,
        ]
    return table


TABLES = {"penalty": lambda run: penalty([run])}
