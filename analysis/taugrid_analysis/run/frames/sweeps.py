# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One row a point of every curve over α."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis.run.accuracies import Accuracies, accuracies
from taugrid_analysis.run.results import Results

# experiment: variable, split, and whether the points are the control's
CURVES = {
    "addition": (("test_accuracy", "test", False), ("validation_accuracy", "validation", False)),
    "pair_addition": (("test_accuracy", "test", False), ("validation_accuracy", "validation", False)),
    "negation": (
        ("test_target", "test", False),
        ("test_control", "test", True),
        ("validation_target", "validation", False),
        ("validation_control", "validation", True),
    ),
}
COLUMNS = (
    "experiment",
    "regime",
    "split",
    "pair",
    "task",
    "on_control",
    "alpha",
    "accuracy",
    "error",
    "points",
)


def sweeps(results: Results) -> pd.DataFrame:
    """Accuracy over α of θ0 + α Σ τ (addition, pair_addition) and of θ0 − α τ (negation).

    experiment, regime, split; pair (of pair_addition), task: whose points and, of a negation, whose vector;
    on_control: measured on the control task's points instead; alpha, accuracy, error (standard error),
    points.
    """
    parts = []
    for experiment, variables in CURVES.items():
        for regime in results.names(experiment):
            for variable, split, control in variables:
                scores = accuracies(results, experiment, regime, variable)
                if scores is not None:
                    labels = {
                        "experiment": experiment,
                        "regime": regime,
                        "split": split,
                        "on_control": control,
                    }
                    parts.append(_long(results, scores).assign(**labels))
    if not parts:
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.concat(parts, ignore_index=True)[list(COLUMNS)]


def _long(results: Results, scores: Accuracies) -> pd.DataFrame:
    value = scores.value
    index = np.indices(value.shape).reshape(value.ndim, -1)
    place = dict(zip((str(dim) for dim in value.dims), index, strict=True))
    pair = place.get("pair")
    task = place["task"] if pair is None else results.pairs[pair, place["side"]]
    names = np.array(results.tasks, dtype=object)
    labels = np.array([results.pair_name(p) for p in range(len(results.pairs))], dtype=object)
    return pd.DataFrame(
        {
            "pair": labels[pair] if pair is not None else None,
            "task": names[task],
            "alpha": value["alpha"].to_numpy()[place["alpha"]],
            "accuracy": value.to_numpy().ravel(),
            "error": scores.error.ravel(),
            "points": np.asarray(scores.points).ravel(),
        }
    )
