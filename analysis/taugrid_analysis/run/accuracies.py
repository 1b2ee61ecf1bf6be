# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Measured accuracies with the number of their points, the points' rows and their correctness."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr

from taugrid_analysis.numbers import sampling
from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.run.correctness import Correct
from taugrid_analysis.run.results import Results

ROWS = {  # variable: whose rows its points are
    "accuracy": "sample_index",
    "validation_accuracy": "validation_sample_index",
    "test_accuracy": "sample_index",
    "test_target": "sample_index",
    "validation_target": "validation_sample_index",
    "test_control": "control_sample_index",
    "validation_control": "validation_control_sample_index",
}


@dataclass(frozen=True)
class Accuracies:
    """One variable; `points` and `error` have its shape; `rows` [T,N] or [N], −1 where there are fewer."""

    value: xr.DataArray
    points: Array
    rows: Array | None
    correct: Correct | None

    @cached_property
    def error(self) -> Floats:
        return sampling.binomial(self.value.to_numpy(), self.points)

    def rows_of(self, task: int) -> Array | None:
        if self.rows is None:
            return None
        rows = self.rows[task] if self.rows.ndim == 2 else self.rows
        return np.asarray(rows[rows >= 0])


def accuracies(results: Results, group: str, name: str, variable: str) -> Accuracies | None:
    """The accuracies of /GROUP/NAME/VARIABLE; None where it was not measured."""
    data = results.data(group, name)
    if data is None or variable not in data:
        return None
    value, rows = data[variable], data.get(ROWS[variable])
    correct = results.correct(f"{group}/{name}/{variable}")
    points = correct.points if correct is not None else _points(results, value, rows)
    return Accuracies(value, points, rows.to_numpy() if rows is not None else None, correct)


def _points(results: Results, value: xr.DataArray, rows: xr.DataArray | None) -> Array:
    """As many as rows are stored; 0 where the file does not say, or not for which task."""
    if rows is None:
        return np.zeros(value.shape, dtype=int)
    counts = (rows.to_numpy() >= 0).sum(axis=-1)
    if rows.ndim == 1:  # the control's, the same for every task
        return np.full(value.shape, int(counts))
    if "task" in value.dims:
        along = [len(counts) if dim == "task" else 1 for dim in value.dims]
        return np.broadcast_to(counts.reshape(along), value.shape)
    if "pair" not in value.dims:
        return np.zeros(value.shape, dtype=int)
    return np.broadcast_to(counts[results.pairs][:, None, :], value.shape)  # [P,A,2]


def ratio_error(above: Accuracies, place: tuple[int, ...], below: Accuracies, task: int) -> float:
    """Standard error of above[place]/below[task], paired where both had the same points of the task."""
    same = paired_points(above, place, below, task)
    if same is not None:
        return sampling.paired_ratio(*same)
    return sampling.of_ratio(
        float(above.value.to_numpy()[place]),
        float(below.value.to_numpy()[task]),
        float(above.error[place]),
        float(below.error[task]),
    )


def paired_points(
    first: Accuracies,
    place: tuple[int, ...],
    second: Accuracies,
    task: int,
    other: tuple[int, ...] | None = None,
) -> tuple[Array, Array] | None:
    """Which of the task's points each of two models has right; None where they are unknown or differ."""
    rows = first.rows_of(task), second.rows_of(task)
    if first.correct is None or second.correct is None or rows[0] is None or rows[1] is None:
        return None
    if not np.array_equal(rows[0], rows[1]):
        return None
    right = first.correct.of(*place), second.correct.of(*(other if other is not None else (task,)))
    return right if len(right[0]) == len(right[1]) else None
