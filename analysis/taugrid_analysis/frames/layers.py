# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One row a regime, pair, layer and α: how far mixed weights give mixed features (cross-task linearity)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis.contract import LINEARITY, NEGATED_LINEARITY
from taugrid_analysis.results import Results

STATISTICS = ("", "_deviation", "_lower", "_median", "_upper")  # as they lie along /linearity's last axis


def layers(results: Results) -> pd.DataFrame:
    """Columns regime, pair, task_1, task_2, layer, alpha, and of every quantity five.

    Quantities: cosine, coefficient, baseline, error, and centred_… of differences from θ0's features; class_…
    of the class token alone. X is the mean over both tasks' points, X_deviation their standard deviation,
    X_lower, X_median, X_upper the quartiles. alpha is the weight of task_1's model. Layer 0 is the output of
    the embedding, the last one the encoder's.
    """
    return _by_layer(results, "linearity", "alpha")


def additions(results: Results) -> pd.DataFrame:
    """The same of θ0 + λ(τ₁ + τ₂) against θ0 + 2λτ₁ and θ0 + 2λτ₂, lambda in place of alpha."""
    return _by_layer(results, "layer_addition", "lambda")


def negations(results: Results) -> pd.DataFrame:
    """The same of θ0 against θ0 + λτ and θ0 − λτ, a task in place of a pair; only baselines are centred."""
    return _by_layer(results, "layer_negation", "lambda")


def _by_layer(results: Results, group: str, axis: str) -> pd.DataFrame:
    parts = []
    for regime in results.names(group):
        data = results.data(group, regime)
        if data is None:
            continue
        first, layer, weight = (place.ravel() for place in np.indices(data["cosine"].shape[:3]))
        names = np.array(results.tasks, dtype=object)
        told: dict[str, object] = {"regime": regime}
        if group == "layer_negation":
            told["task"] = names[first]
        else:
            pairs = np.array([results.pair_name(p) for p in range(len(results.pairs))], dtype=object)
            told["pair"] = pairs[first]
            told |= {f"task_{side + 1}": names[results.pairs[first, side]] for side in (0, 1)}
        told |= {"layer": data["layer"].to_numpy().astype(int)[layer], axis: data[axis].to_numpy()[weight]}
        for name in NEGATED_LINEARITY if group == "layer_negation" else LINEARITY:
            if name in data:
                values = data[name].to_numpy().reshape(len(first), len(STATISTICS))
                told |= {f"{name}{ending}": values[:, place] for place, ending in enumerate(STATISTICS)}
        parts.append(pd.DataFrame(told))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


PAPERS_LAMBDA = 0.4


def near_papers(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the λ nearest to the paper's 0.4."""
    distance = (frame["lambda"] - PAPERS_LAMBDA).abs()
    return frame[distance == distance.min()]


def near_half(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the α nearest to ½, where the two models weigh alike."""
    distance = (frame["alpha"] - 0.5).abs()
    return frame[distance == distance.min()]
