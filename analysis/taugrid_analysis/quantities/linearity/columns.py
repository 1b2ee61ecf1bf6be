# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frame of pairs tells of cross-task linearity."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.run.results import Results


def of_pairs(results: Results, regime: str) -> dict[str, Array]:
    """‖u − v‖/‖f₁ − f₂‖ of the last layer at the α nearest ½; NaN of linearised models: it is rounding."""
    data = None if results.regime(regime).linear else results.data("linearity", regime)
    if data is None:
        return {"linearity": results.nothing()}
    half = int(np.argmin(np.abs(data["alpha"].to_numpy() - 0.5)))
    return {"linearity": data["error"].to_numpy()[:, -1, half, 0].astype(float)}  # statistic 0: the mean
