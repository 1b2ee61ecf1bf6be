# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merged models of all tasks, method beside method (paper 2)."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import accuracies, differences, outcomes
from taugrid_analysis.regimes import JOINT
from taugrid_analysis.run import Run
from taugrid_analysis.tables.bases import members, told_of_filter
from taugrid_analysis.tables.cells import SAMPLE, cells
from taugrid_analysis.text_table import Column, Measured, Table, Value

FIRST = ("task_arithmetic", "linear")  # the others are compared with


def merging(run: Run) -> Table:
    results = run.results
    table = Table(
        "merging",
        f"Merging {len(results.tasks)} tasks' models, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("method"),
            Column("alpha"),
            Column("absolute", 1, percent=True),
            Column("normalized", 1, percent=True),
            Column("− first", 1, percent=True),
            Column("density", 1, percent=True),
            Column("passes", 1),
            Column("seconds", 2),
        ],
    )
    seconds: dict[str, float] = {}  # of the merge, and of what each task's data gave to it
    for unit in results.units():
        if unit.key.startswith(("merging/", "merging_data/")):
            name = "/".join(unit.key.split("/")[1:3])
            seconds[name] = seconds.get(name, 0.0) + unit.seconds
    methods = results.names("merging")
    left_out: dict[str, list[str]] = {}
    for regime in results.regimes:
        known = [name for name in methods if results.data("merging", f"{name}/{regime}") is not None]
        known.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), methods.index(name)))
        for method in known:
            data = results.data("merging", f"{method}/{regime}")
            assert data is not None
            found = zip(results.tasks, data["accuracy"].to_numpy(), strict=True)
            if none := [task for task, one in found if not np.isfinite(one)]:
                left_out[regime] = none
            change = differences.merged(results, f"{method}/{regime}", f"{known[0]}/{regime}")
            table.rows.append(
                [
                    regime,
                    method,
                    float(data["coefficient"]),
                    *_accuracies(run, method, regime),
                    Measured(change.mean, change.mean_error) if method != known[0] else None,
                    float(data["density"]),
                    float(data["passes"]),
                    seconds.get(f"{method}/{regime}"),
                ]
            )
        table.rows += _joint(run, regime) if known else []
    if table.rows:
        table.notes += [
            "alpha: of θ0 + α τ, chosen on validation, where the method has one. − first: than the regime's"
            " first row, on the same points. density: share of τ that is not zero. passes: over all vectors."
            " Seconds are this machine's.",
            SAMPLE,
            *told_of_filter(left_out),
        ]
    return table


def _joint(run: Run, regime: str) -> list[list[Value]]:
    """One model trained on all tasks, on the function that the regime's vectors are of."""
    rows: list[list[Value]] = []
    for joint in run.results.names("multitask"):
        if JOINT.get(joint) == regime:
            both = cells(run.summary.loc[joint], "absolute", "normalized")
            rows.append([regime, joint, None, *both, None, None, None, None])
    return rows


def masks(run: Run) -> Table:
    """What Localize-and-Stitch and its variants on clusters store (paper 2, table 8)."""
    results = run.results
    table = Table(
        "masks",
        f"Masks of {len(results.tasks)} task vectors, and what is stored",
        [
            Column("regime"),
            Column("method"),
            Column("masks"),
            Column("density", 2, percent=True),
            Column("stored, MB", 3),
            Column("of the vectors", 2, percent=True),
            Column("clusters"),
            Column("absolute", 1, percent=True),
            Column("normalized", 1, percent=True),
        ],
    )
    for regime in results.regimes:
        for method in results.names("merging"):
            data = results.data("merging", f"{method}/{regime}")
            if data is None or "masks" not in data:
                continue
            count, numbers = int(data["masks"]), float(data["mask_numbers"])
            whole = float(data["bytes"]) / float(data["passes"])  # of all vectors
            table.rows.append(
                [
                    regime,
                    method,
                    f"{count}",
                    float(data["mask_density"].mean()),
                    4e-6 * numbers,
                    4 * numbers / whole,
                    members(data["labels"].to_numpy().astype(int), results.tasks) if "labels" in data else "",
                    *_accuracies(run, method, regime),
                ]
            )
    if table.rows:
        table.notes.append(
            "density: of the masks that are stitched, mean over tasks, among the numbers that masks are of."
            " stored: four bytes a number that a mask has, without their places. " + SAMPLE
        )
    return table


def _accuracies(run: Run, method: str, regime: str) -> tuple[Measured, Measured]:
    """At the chosen α: absolute, and over each task's own model."""
    name = f"{method}/{regime}"
    data = run.results.data("merging", name)
    test = accuracies.accuracies(run.results, "merging", name, "test_accuracy")
    own = accuracies.accuracies(run.results, "single_task", regime, "accuracy")
    assert data is not None and test is not None
    place = outcomes.place_of(data["alpha"].to_numpy(), float(data["coefficient"]))
    assert place is not None
    values = test.value.to_numpy()[place].astype(float)
    absolute = outcomes.measured_mean(values, test.error[place])
    if own is None:
        return absolute, Measured(float(data["normalized"]), float("nan"))
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = values / own.value.to_numpy()
    errors = [accuracies.ratio_error(test, (place, task), own, task) for task in range(len(values))]
    return absolute, outcomes.measured_mean(shares, np.array(errors))
