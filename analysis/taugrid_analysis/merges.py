# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merged models of all tasks: what each method reaches, and what it takes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis import accuracies, outcomes
from taugrid_analysis.results import Results
from taugrid_analysis.run import Run
from taugrid_analysis.text_table import Measured


def seconds(results: Results) -> dict[str, float]:
    """By METHOD/REGIME: of the merge's unit, and of those of what each task's data gave to it."""
    found: dict[str, float] = {}
    for unit in results.units():
        if unit.key.startswith(("merging/", "merging_data/")):
            name = "/".join(unit.key.split("/")[1:3])
            found[name] = found.get(name, 0.0) + unit.seconds
    return found


def costs(run: Run) -> pd.DataFrame:
    """A row a regime and method.

    Columns: regime, method, normalized and its error; seconds (NaN where the file does not say), bytes that
    were read of the vectors, passes over all of them, and inputs that went through a model forwards and
    backwards before anything was evaluated.
    """
    took, rows = seconds(run.results), []
    for regime in run.results.regimes:
        for method in run.results.names("merging"):
            data = run.results.data("merging", f"{method}/{regime}")
            if data is None:
                continue
            _, value = normalized(run, method, regime)
            row = {"regime": regime, "method": method, "normalized": float(value), "error": value.error}
            row["seconds"] = took.get(f"{method}/{regime}", np.nan)
            for name in ("bytes", "passes", "forward_passes", "backward_passes"):
                row[name] = float(data[name]) if name in data else np.nan
            rows.append(row)
    return pd.DataFrame(rows)


def normalized(run: Run, method: str, regime: str) -> tuple[Measured, Measured]:
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
