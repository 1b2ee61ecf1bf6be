# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merged models of all tasks: what each method gains, and what it costs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis.numbers import means, measured
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.opened import Run

FIRST = ("task_arithmetic", "linear")  # the others are compared with
COSTS = ("seconds", "bytes", "passes", "forward_passes", "backward_passes")


def known(run: Run, regime: str) -> list[str]:
    """The methods of a regime by name, those first that others are compared with."""
    methods = run.results.names("merging")
    names = [name for name in methods if run.results.data("merging", f"{name}/{regime}") is not None]
    return sorted(
        names, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), methods.index(name))
    )


def at_chosen(run: Run, method: str, regime: str) -> tuple[Measured, Measured]:
    """Mean accuracy at the chosen α: absolute, and over each task's own model."""
    name = f"{method}/{regime}"
    data = run.results.data("merging", name)
    test = accuracies.accuracies(run.results, "merging", name, "test_accuracy")
    single = accuracies.accuracies(run.results, "single_task", regime, "accuracy")
    assert data is not None and test is not None
    place = means.place_of(data["alpha"].to_numpy(), float(data["coefficient"]))
    assert place is not None
    values = test.value.to_numpy()[place].astype(float)
    absolute = measured.measured_mean(values, test.error[place])
    if single is None:
        return absolute, Measured(float(data["normalized"]), float("nan"))
    shares = means.normalised(values, single.value.to_numpy())
    errors = [accuracies.ratio_error(test, (place, task), single, task) for task in range(len(values))]
    return absolute, measured.measured_mean(shares, np.array(errors))


def of_run(run: Run) -> pd.DataFrame:
    """A row a regime and method, NaN where a file does not say.

    Columns: regime, method (by name), of (the method that the name stands for), coefficient, absolute,
    absolute_error, normalized, normalized_error, density; seconds of what makes τ, bytes and passes over the
    vectors, inputs forwards and backwards.
    """
    rows = []
    for regime in run.results.regimes:
        for method in known(run, regime):
            data = run.results.data("merging", f"{method}/{regime}")
            assert data is not None
            absolute, normalized = at_chosen(run, method, regime)
            row: dict[str, object] = {
                "regime": regime,
                "method": method,
                "of": str(data.attrs.get("method", method)),
                "coefficient": float(data["coefficient"]),
                "absolute": float(absolute),
                "absolute_error": absolute.error,
                "normalized": float(normalized),
                "normalized_error": normalized.error,
                "density": float(data["density"]),
            }
            row |= {name: float(data[name]) if name in data else float("nan") for name in COSTS}
            rows.append(row)
    return pd.DataFrame(rows)
