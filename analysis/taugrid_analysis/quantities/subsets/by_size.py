# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Sums of random subsets of the tasks by their size: how interference grows with the number of tasks."""

from __future__ import annotations

from math import comb

import numpy as np
import pandas as pd

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.run.opened import Run


def by_size(run: Run) -> pd.DataFrame:
    """A row a regime and number of tasks: means over its subsets, and their standard errors over subsets.

    Columns: regime, tasks, subsets, every (whether there are no further ones), coefficient, start and single
    (θ0 and each task's own model, mean over the same subsets; NaN where not measured), absolute and
    normalized, each with NAME_error, NaN of one subset.
    """
    rows = []
    for regime in run.results.regimes:
        data = run.data("subsets", regime)
        if data is None:
            continue
        member = data["sets"].to_numpy().astype(bool)
        size = member.sum(axis=1)
        for count in np.unique(size[size > 0]):  # a subset may be left without tasks by [data] beat_majority
            here = size == count
            row: dict[str, object] = {
                "regime": regime,
                "tasks": int(count),
                "subsets": int(here.sum()),
                "every": int(here.sum()) == comb(member.shape[1], int(count)),
                "coefficient": float(data["coefficient"].to_numpy()[here].mean()),
                "start": _mean_of(run, run.results.start, member[here]),
                "single": _mean_of(run, regime, member[here]),
            }
            for name in ("absolute", "normalized"):
                values = data[name].to_numpy()[here]
                error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
                row |= {name: float(values.mean()), f"{name}_error": float(error)}
            rows.append(row)
    return pd.DataFrame(rows)


def merge_of(run: Run) -> str:
    """How a subset's vectors became one, of the first regime."""
    datasets = [run.data("subsets", regime) for regime in run.results.names("subsets")]
    return next(str(data.attrs["merge"]) for data in datasets if data is not None)


def _mean_of(run: Run, model: str, member: Array) -> float:
    """Accuracy of `model` on the tasks of each set, mean over tasks, then sets."""
    data = run.data("single_task", model)
    if data is None:
        return float("nan")
    accuracy = data["accuracy"].to_numpy()
    return float(np.mean([accuracy[mask].mean() for mask in member]))
