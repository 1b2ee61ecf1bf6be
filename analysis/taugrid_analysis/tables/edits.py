# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Edited models: all task vectors added, two of them, one of them subtracted."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import comparison, outcomes, published
from taugrid_analysis.measures import mean
from taugrid_analysis.results import Results
from taugrid_analysis.text_table import Column, Table, Value


def addition(results: Results, identity: published.Identity) -> Table:
    table = Table(
        "addition",
        f"Task addition: θ0 + α Σ τ over {len(results.tasks)} tasks, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("alpha"),
            Column("absolute", 1, percent=True),
            Column("normalized", 1, percent=True),
            Column("one_shot_absolute", 1, percent=True),
            Column("one_shot_normalized", 1, percent=True),
        ],
    )
    regimes = results.names("addition")
    if not regimes:
        return table
    start = results.single_task(results.start)
    absolute = mean(start.accuracy) if start is not None else None
    table.rows.append([results.start, None, absolute, None, None, None])
    for regime in regimes:
        record = results.addition(regime)
        assert record is not None
        table.rows.append(
            [
                regime,
                record.chosen_alpha,
                record.absolute,
                record.normalized,
                record.one_shot_absolute,
                record.one_shot_normalized,
            ]
        )
    table.notes.append("alpha: one for all tasks, chosen on the validation split; one shot: alpha = 1.")
    if identity.key is not None:
        comparison.add_published(table, results, identity)
    return table


def sensitivity(results: Results) -> Table:
    table = Table(
        "sensitivity",
        "Sensitivity to α of the sum of all task vectors, mean test accuracy",
        [
            Column("regime"),
            Column("within 1 point of the best", 0, percent=True),
            Column("best", 1, percent=True),
            Column("at"),
            Column("tuned", 1, percent=True),
            Column("one shot", 1, percent=True),
            Column("one shot − tuned", 1, percent=True),
        ],
    )
    for regime in results.names("addition"):
        record = results.addition(regime)
        assert record is not None
        curve = record.test_accuracy.mean(axis=1)
        best = int(curve.argmax())
        table.rows.append(
            [
                regime,
                outcomes.tolerant_share(record.alpha, curve),
                float(curve[best]),
                float(record.alpha[best]),
                record.absolute,
                record.one_shot_absolute,
                record.one_shot_absolute - record.absolute,
            ]
        )
    if table.rows:
        table.notes.append("Share of the searched α range, accuracy linear between coefficients.")
    return table


def pair_addition(results: Results) -> Table:
    table = Table(
        "pair_addition",
        f"Addition of two task vectors, test accuracy, mean over {len(results.pairs)} pairs",
        [
            Column("regime"),
            Column("mean alpha"),
            Column("absolute", 1, percent=True),
            Column("normalized", 1, percent=True),
            Column("one_shot_absolute", 1, percent=True),
            Column("one_shot_normalized", 1, percent=True),
            Column("worst normalized", 1, percent=True),
            Column("pair"),
        ],
    )
    for regime in results.names("pair_addition"):
        record = results.pair_addition(regime)
        assert record is not None
        known = bool(np.isfinite(record.normalized).any())
        worst = int(np.nanargmin(record.normalized)) if known else 0
        table.rows.append(
            [
                regime,
                mean(record.chosen_alpha),
                mean(record.absolute),
                mean(record.normalized),
                mean(record.one_shot_absolute),
                mean(record.one_shot_normalized),
                float(record.normalized[worst]) if known else None,
                results.pair_name(worst) if known else "",
            ]
        )
    if table.rows:
        table.notes.append("alpha: one for both, chosen on validation for each pair; one shot: alpha = 1.")
    return table


def multitask(results: Results) -> Table:
    """One model trained on all tasks beside the sums (paper 3, appendix E)."""
    joint = results.names("multitask")
    table = Table(
        "multitask",
        "One model trained on all tasks beside sums of task vectors, test accuracy, mean over tasks",
        [
            Column("model"),
            Column("absolute", 1, percent=True),
            Column("normalized", 1, percent=True),
            Column("worst task", 1, percent=True),
            Column("which"),
        ],
    )
    for regime in joint:
        record = results.multitask(regime)
        assert record is not None
        both = outcomes.joint(results, regime, record)
        row = [regime, both["absolute"], both["normalized"], *_worst(results, record.accuracy)]
        table.rows.append(row)
    for regime in results.names("addition") if joint else []:
        added = results.addition(regime)
        assert added is not None
        by_task = outcomes.added_by_task(added)
        table.rows.append([f"sum, {regime}", added.absolute, added.normalized, *_worst(results, by_task)])
    if table.rows:
        table.notes.append(
            "normalized: by the single-task models, non-linear for multitask, linear for multitask_linear,"
            " its own regime's for a sum."
        )
    return table


def _worst(results: Results, accuracy: np.ndarray) -> list[Value]:
    if not np.isfinite(accuracy).any():
        return [None, ""]
    place = int(np.nanargmin(accuracy))
    return [float(accuracy[place]), results.tasks[place]]


def negation(results: Results) -> Table:
    """Target and control accuracy of θ0 − α τ, mean over tasks (paper 1, table 2; paper 3, table 2)."""
    table = Table(
        "negation",
        f"Task negation: θ0 − α τ of each of {len(results.tasks)} tasks, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("searched"),
            Column("mean alpha"),
            Column("target", 1, percent=True),
            Column("control", 1, percent=True),
            Column("control kept"),
        ],
    )
    regimes = results.names("negation")
    if not regimes:
        return table
    start = results.single_task(results.start)
    table.rows.append(
        [
            results.start,
            "",
            None,
            mean(start.accuracy) if start is not None else None,
            start.control_accuracy if start is not None else None,
            "",
        ]
    )
    for regime in regimes:
        record = results.negation(regime)
        assert record is not None
        found = [("[0,1]", outcomes.forgetting(record.narrow))]
        if record.wide is not None:
            found.append(("[0,3]", outcomes.forgetting(record.wide)))
        found.append(("α = 1", outcomes.one_shot_forgetting(record, start)))
        for searched, one in found:
            kept = f"{one.kept} of {len(results.tasks)}"
            table.rows.append([regime, searched, one.alpha, one.target, one.control, kept])
        for searched, choice in (("[0,1]", record.narrow), ("[0,3]", record.wide)):
            lost = ~np.isfinite(choice.alpha) if choice is not None else np.zeros(len(results.tasks), bool)
            names = ", ".join(task for task, gone in zip(results.tasks, lost, strict=True) if gone)
            if names:
                table.notes.append(f"{regime}: no α in {searched} keeps the control for {names}.")
    first = results.negation(regimes[0])
    assert first is not None
    table.notes.append(
        f"Control task {first.control}. α: least target accuracy on validation with at least"
        f" {100 * first.threshold:g} % of θ0's control accuracy; a task where none qualifies is left out, and"
        " where none of all tasks does, a dash is printed. α = 1 is not chosen: kept is counted on test."
    )
    return table
