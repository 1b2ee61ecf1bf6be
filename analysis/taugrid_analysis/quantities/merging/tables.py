# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merged models of all tasks, method beside method (paper 2), and what depends on a method's choices."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.cells import SAMPLE, cells, largest_tried
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.quantities.bases.tables import members, told_of_filter
from taugrid_analysis.quantities.merging.models import at_chosen, of_run
from taugrid_analysis.run import differences
from taugrid_analysis.run.opened import Run


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
            Column("points needed"),
            Column("density", 1, percent=True),
            Column("passes", 1),
            Column("MB read", 1),
            Column("inputs", 0),
            Column("seconds", 2, timed=True),
        ],
    )
    frame = of_run(run)
    left_out: dict[str, list[str]] = {}
    curves = {}
    for regime, rows in frame.groupby("regime", sort=False) if len(frame) else ():
        first = rows["method"].iloc[0]
        for row in rows.to_dict("records"):
            method = row["method"]
            data = results.data("merging", f"{method}/{regime}")
            assert data is not None
            curves[f"{method} {regime}"] = data
            by_task = zip(results.tasks, data["accuracy"].to_numpy(), strict=True)
            if none := [task for task, accuracy in by_task if not np.isfinite(accuracy)]:
                left_out[str(regime)] = none
            change = differences.merged(results, f"{method}/{regime}", f"{first}/{regime}")
            table.rows.append(
                [
                    str(regime),
                    method,
                    row["coefficient"],
                    Measured(row["absolute"], row["absolute_error"]),
                    Measured(row["normalized"], row["normalized_error"]),
                    Measured(change.mean, change.mean_error) if method != first else None,
                    change.needs if method != first else None,
                    row["density"],
                    row["passes"],
                    1e-6 * row["bytes"],
                    row["forward_passes"] + row["backward_passes"],
                    row["seconds"],
                ]
            )
        table.rows += _joint(run, str(regime))
    if table.rows:
        table.notes += [
            "alpha: of θ0 + α τ, chosen on validation, where the method has one. − first: than the regime's"
            " first row, on the same points. density: share of τ that is not zero. passes: over all vectors,"
            " MB read: of them. inputs: that went through a model, forwards or backwards, to make τ. Seconds"
            " are this machine's, of what makes τ.",
            differences.NEEDED,
            *_inputs_taken(run),
            *largest_tried(curves),
            SAMPLE,
            *told_of_filter(left_out),
        ]
    return table


def _inputs_taken(run: Run) -> list[str]:
    """Whose inputs the methods took that take data."""
    taken: dict[str, list[str]] = {}
    for name in run.results.by_method("merging"):
        data = run.results.data("merging", name)
        if data is not None and "inputs" in data.attrs:
            method, split = name.split("/")[0], str(data.attrs["inputs"])
            if method not in taken.setdefault(split, []):
                taken[split].append(method)
    text = "; ".join(f"{split} points: {', '.join(methods)}" for split, methods in taken.items())
    return [f"τ is made with inputs of {text}."] if text else []


def _joint(run: Run, regime: str) -> list[list[Value]]:
    """One model trained on all tasks, on the function that the regime's vectors are of.

    Unless a method, joint or tangent, has a line of this model.
    """
    rows: list[list[Value]] = []
    datasets = (run.results.data("merging", f"{method}/{regime}") for method in run.results.names("merging"))
    models = {str(data.attrs.get("checkpoint", "")) for data in datasets if data is not None}
    for joint in run.results.names("multitask"):
        if run.results.regime(joint).single == regime and f"{joint}/joint" not in models:
            both = cells(run.summary.loc[joint], "absolute", "normalized")
            rows.append([regime, joint, None, *both, *[None] * 7])
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
                    *at_chosen(run, method, regime),
                ]
            )
    if table.rows:
        table.notes.append(
            "density: of the masks that are stitched, mean over tasks, among the numbers that masks are of."
            " stored: four bytes a number that a mask has, without their places. " + SAMPLE
        )
    return table


def choices(run: Run) -> Table:
    """A line a regime and method that the run has under several names: its range over them."""
    table = Table(
        "choices",
        "Merging methods under several choices of their parameters, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("method"),
            Column("choice"),
            Column("alpha"),
            Column("normalized", 1, percent=True),
            Column("absolute", 1, percent=True),
            Column("− first", 2, percent=True),
            Column("points needed"),
            Column("range", 1, percent=True),
        ],
    )
    frame = of_run(run)
    for (regime, of), rows in frame.groupby(["regime", "of"], sort=False) if len(frame) else ():
        if len(rows) < 2:
            continue
        # The method under its own name has the published defaults.
        rows = rows.sort_values("method", key=lambda names: names != of, kind="stable")
        first = rows["method"].iloc[0]
        apart = [
            differences.merged(run.results, f"{method}/{regime}", f"{other}/{regime}")
            for method, other in combinations(rows["method"], 2)
        ]
        widest = max(apart, key=lambda difference: abs(difference.mean))
        for place, row in enumerate(rows.to_dict("records")):
            change = differences.merged(run.results, f"{row['method']}/{regime}", f"{first}/{regime}")
            table.rows.append(
                [
                    str(regime),
                    str(of),
                    row["method"],
                    row["coefficient"],
                    Measured(row["normalized"], row["normalized_error"]),
                    Measured(row["absolute"], row["absolute_error"]),
                    Measured(change.mean, change.mean_error) if place else None,
                    change.needs if place else None,
                    Measured(abs(widest.mean), widest.mean_error) if not place else None,
                ]
            )
    if table.rows:
        table.notes += [
            "choice: the name in [merging] methods. − first: of the absolute accuracy, less that of the"
            " method's first line, on the same points. range: the two choices that lie furthest apart, with"
            " the paired error of their difference, which says nothing of having looked for them. α by"
            " validation, each.",
            differences.NEEDED,
            SAMPLE,
        ]
    return table


TABLES = {"merging": merging, "masks": masks, "choices": choices}
