# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Single tasks: accuracies, what linearising costs them, and their vectors."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.measures import mean
from taugrid_analysis.results import Results
from taugrid_analysis.text_table import Column, Table, Value

# Against these the papers hold non-linear fine-tuning (paper 1, figures 2 and 5; paper 4, figure 5).
RIVALS = ("posthoc", "linear", "attention", "tau_jp")
KERNEL_TESTS = (("whole model", "standard", "posthoc"), ("attention", "attention", "attention_posthoc"))


def single_task(results: Results) -> Table:
    regimes = [name for name in (results.start, *results.regimes) if results.single_task(name) is not None]
    table = Table(
        "single_task",
        "Single-task accuracy, test split",
        [Column("task"), Column("classes"), *[Column(name, 1, percent=True) for name in regimes]],
    )
    if not regimes:
        return table
    records = [results.single_task(name) for name in regimes]
    for index, task in enumerate(results.tasks):
        values: list[Value] = [float(record.accuracy[index]) for record in records if record is not None]
        table.rows.append([task, int(results.classes[index]), *values])
    means: list[Value] = [mean(record.accuracy) for record in records if record is not None]
    table.rows.append(["mean", None, *means])
    samples = {record.samples for record in records if record is not None and record.samples}
    if samples:
        table.notes.append(f"{_range(samples)} test points a task.")
    return table


def _range(numbers: set[int]) -> str:
    return f"{min(numbers):,}" if len(numbers) == 1 else f"{min(numbers):,} to {max(numbers):,}"


def advantage(results: Results) -> Table:
    """Non-linear advantage: what a task's own model loses against non-linear fine-tuning."""
    base = results.single_task("standard")
    rivals = {name: record for name in RIVALS if (record := results.single_task(name)) is not None}
    table = Table(
        "advantage",
        "Non-linear advantage: single-task accuracy of standard fine-tuning less that of …, points",
        [Column("task"), *[Column(name, 1, percent=True) for name in rivals]],
    )
    if base is None or not rivals:
        return table
    lost = {name: base.accuracy - record.accuracy for name, record in rivals.items()}
    for index, task in enumerate(results.tasks):
        table.rows.append([task, *[float(values[index]) for values in lost.values()]])
    table.rows.append(["mean", *[mean(values) for values in lost.values()]])
    return table


def kernel_behaviour(results: Results) -> Table:
    """The same task vectors in f and in its linearisation (paper 4, section 3.2)."""
    table = Table(
        "kernel_behaviour",
        "Kernel behaviour test: the same task vectors in f and in its linearisation, test accuracy",
        [
            Column("fine-tuned"),
            Column("task"),
            Column("non-linear", 1, percent=True),
            Column("post-hoc", 1, percent=True),
            Column("post-hoc − non-linear", 1, percent=True),
        ],
    )
    for title, trained, linearised in KERNEL_TESTS:
        own, other = results.single_task(trained), results.single_task(linearised)
        if own is None or other is None:
            continue
        rows = zip(results.tasks, own.accuracy, other.accuracy, strict=True)
        for task, a, b in [*rows, ("mean", mean(own.accuracy), mean(other.accuracy))]:
            table.rows.append([title, task, float(a), float(b), float(b - a)])
    if table.rows:
        table.notes.append("Near 0: fine-tuning stayed in the kernel regime.")
    return table


def similarity(results: Results) -> Table:
    table = Table(
        "similarity",
        "Task vectors",
        [
            Column("regime"),
            Column("task"),
            Column("norm", 3),
            Column("norm / norm of θ0", 4),
            Column("largest |cosine|", 3),
            Column("with"),
        ],
    )
    for regime in results.names("similarity"):
        record = results.similarity(regime)
        assert record is not None
        others = np.abs(record.cosine.astype(float))
        np.fill_diagonal(others, -1.0)
        for index, task in enumerate(results.tasks):
            nearest = int(others[index].argmax())
            alone = nearest == index
            table.rows.append(
                [
                    regime,
                    task,
                    float(record.norm[index]),
                    float(record.norm_ratio[index]),
                    None if alone else float(others[index, nearest]),
                    "" if alone else results.tasks[nearest],
                ]
            )
    return table
