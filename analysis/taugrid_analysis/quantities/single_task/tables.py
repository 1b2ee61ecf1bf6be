# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Each task's own model: its accuracy, what linearising costs it, and what other regimes gain."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.cells import SAMPLE, cell
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.run.differences import NEEDED, Difference, added, single
from taugrid_analysis.run.opened import Run

# Against these the papers hold non-linear fine-tuning (paper 1, figures 2 and 5; paper 4, figure 5).
RIVALS = ("posthoc", "linear", "attention", "tau_jp")
KERNEL_TESTS = (("whole model", "standard", "posthoc"), ("attention", "attention", "attention_posthoc"))
MCNEMAR = "McNemar's exact test over the points of all tasks"
UNEVEN = "of the mean over its error, for tasks have different numbers of points"
PAIRED = "±: standard error of the difference{}."


def _paired_note(differences: list[Difference]) -> str:
    """How the errors of these differences came about."""
    if all(difference.paired for difference in differences):
        return PAIRED.format(", McNemar's, from the points on which the two models differ")
    return PAIRED.format(
        "; the two models' points are taken as different ones: which are right is not stored"
    )


def single_task(run: Run) -> Table:
    regimes = [
        name for name in (run.results.start, *run.regimes) if run.data("single_task", name) is not None
    ]
    table = Table(
        "single_task",
        "Single-task accuracy, test split",
        [Column("task"), Column("classes"), *[Column(name, 1, percent=True) for name in regimes]],
    )
    if not regimes:
        return table
    for task, classes in zip(run.results.tasks, run.results.classes, strict=True):
        cells: list[Value] = [cell(run.tasks.loc[(name, task)], "accuracy") for name in regimes]
        table.rows.append([task, int(classes), *cells])
    table.rows.append(["mean", None, *[cell(run.summary.loc[name], "single") for name in regimes]])
    samples = {int(points) for name in regimes for points in run.tasks.loc[name]["points"] if points > 0}
    if samples:
        table.notes.append(f"{_range(samples)} test points a task. {SAMPLE}")
    if (majority := run.results.majority()) is not None:
        table.notes.append(
            f"The most frequent class of each task has {100 * np.nanmean(majority):.1f} % of its test points,"
            f" mean over tasks: the majority vote.{_not_beaten(run, regimes)}"
        )
    return table


def _not_beaten(run: Run, regimes: list[str]) -> str:
    texts = []
    for name in regimes:
        data = run.data("single_task", name)
        if name == run.results.start or data is None or "beats_majority" not in data:
            continue
        beaten = data["beats_majority"].to_numpy().astype(bool)
        if not beaten.all():
            tasks = [task for task, beats in zip(run.results.tasks, beaten, strict=True) if not beats]
            texts.append(f" {name} does not beat it on validation points of {', '.join(tasks)}.")
    return "".join(texts)


def _range(numbers: set[int]) -> str:
    return f"{min(numbers):,}" if len(numbers) == 1 else f"{min(numbers):,} to {max(numbers):,}"


def advantage(run: Run) -> Table:
    """Non-linear advantage: what a task's own model loses against non-linear fine-tuning."""
    rivals = [name for name in RIVALS if run.data("single_task", name) is not None]
    table = Table(
        "advantage",
        "Non-linear advantage: single-task accuracy of standard fine-tuning less that of …, points",
        [Column("task"), *[Column(name, 1, percent=True) for name in rivals]],
    )
    if run.data("single_task", "standard") is None or not rivals:
        return table
    lost = {name: single(run.results, "standard", name) for name in rivals}
    for index, task in enumerate(run.results.tasks):
        table.rows.append([task, *[Measured(*difference.of_task(index)) for difference in lost.values()]])
    table.rows.append(
        ["mean", *[Measured(difference.mean, difference.mean_error) for difference in lost.values()]]
    )
    table.notes.append(_paired_note(list(lost.values())))
    return table


def kernel_behaviour(run: Run) -> Table:
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
    changes = []
    for title, trained, linearised in KERNEL_TESTS:
        if any(run.data("single_task", name) is None for name in (trained, linearised)):
            continue
        change = single(run.results, linearised, trained)
        changes.append(change)
        for index, task in enumerate(run.results.tasks):
            both = [cell(run.tasks.loc[(name, task)], "accuracy") for name in (trained, linearised)]
            table.rows.append([title, task, *both, Measured(*change.of_task(index))])
        means = [cell(run.summary.loc[name], "single") for name in (trained, linearised)]
        table.rows.append([title, "mean", *means, Measured(change.mean, change.mean_error)])
    if table.rows:
        table.notes += ["Near 0: fine-tuning stayed in the kernel regime.", _paired_note(changes)]
    return table


def against_standard(run: Run) -> Table:
    """Every regime less standard fine-tuning on the same test points: single tasks, and the sum of all."""
    table = Table(
        "differences",
        "Less standard fine-tuning on the same test points, mean over tasks, points",
        [
            Column("regime"),
            Column("single", 1, percent=True),
            Column("p single", 4, least=True),
            Column("points needed, single"),
            Column("added", 1, percent=True),
            Column("p added", 4, least=True),
            Column("points needed, added"),
            Column("added, α = 1", 1, percent=True),
            Column("p added, α = 1", 4, least=True),
            Column("points needed, added, α = 1"),
        ],
    )
    changes = []
    for regime in run.regimes:
        if regime == "standard" or any(
            run.data("single_task", name) is None or run.data("addition", name) is None
            for name in ("standard", regime)
        ):
            continue
        both = [
            single(run.results, regime, "standard"),
            added(run.results, (regime, None), ("standard", None)),
            added(run.results, (regime, 1.0), ("standard", 1.0)),
        ]
        row: list[Value] = [regime]
        for change in both:
            row += [Measured(change.mean, change.mean_error), change.p, change.needs]
        table.rows.append(row)
        changes += both
    if table.rows:
        test = MCNEMAR if all(difference.pooled for difference in changes) else UNEVEN
        table.notes += [
            _paired_note(changes),
            f"p: {test}; a dash where it is not stored which are right. It says nothing of another seed.",
            NEEDED,
        ]
    return table


TABLES = {
    "differences": against_standard,
    "single_task": single_task,
    "advantage": advantage,
    "kernel_behaviour": kernel_behaviour,
}
