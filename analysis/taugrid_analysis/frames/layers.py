# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One row a regime, pair, layer and α: how far mixed weights give mixed features (cross-task linearity)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis.contract import LINEARITY
from taugrid_analysis.results import Results

STATISTICS = ("", "_deviation", "_lower", "_median", "_upper")  # as they lie along /linearity's last axis


def layers(results: Results) -> pd.DataFrame:
    """Columns regime, pair, task_1, task_2, layer, alpha, and of every quantity five.

    Quantities: cosine, coefficient, baseline, error, and centred_… of differences from θ0's features; class_…
    of the class token alone. X is the mean over both tasks' points, X_deviation their standard deviation,
    X_lower, X_median, X_upper the quartiles. alpha is the weight of task_1's model. Layer 0 is the output of
    the embedding, the last one the encoder's.
    """
    parts = []
    for regime in results.names("linearity"):
        data = results.data("linearity", regime)
        if data is None:
            continue
        shape = data["cosine"].shape[:3]
        pair, layer, alpha = (place.ravel() for place in np.indices(shape))
        names = np.array(results.tasks, dtype=object)
        told = {
            "regime": regime,
            "pair": np.array([results.pair_name(p) for p in range(shape[0])], dtype=object)[pair],
            "task_1": names[results.pairs[pair, 0]],
            "task_2": names[results.pairs[pair, 1]],
            "layer": data["layer"].to_numpy().astype(int)[layer],
            "alpha": data["alpha"].to_numpy()[alpha],
        }
        for name in LINEARITY:
            if name in data:
                values = data[name].to_numpy().reshape(len(pair), len(STATISTICS))
                told |= {f"{name}{ending}": values[:, place] for place, ending in enumerate(STATISTICS)}
        parts.append(pd.DataFrame(told))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def near_half(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the α nearest to ½, where the two models weigh alike."""
    distance = (frame["alpha"] - 0.5).abs()
    return frame[distance == distance.min()]
