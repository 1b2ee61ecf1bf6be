# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The bound of the bases paper (paper 2, theorem 4.4) beside what it bounds, task by task."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis.run import Run

ALPHA = 0.5  # the theorem's coefficients add up to 1, so ½ for each task of a pair


def bounds(run: Run, regime: str) -> pd.DataFrame | None:
    """One row a pair and task of it: task, gap, bound, tightness.

    gap: L_i(θ0 + ½(τ_i + τ_j)) − L_i(θ0 + τ_i), mean test loss in nat; bound: L_i C (1 + ε), with the
    curvature L_i of the training loss; tightness: gap/bound, above 1 where the bound does not hold. None
    where the run has not both or no pairs, or the gap is measured at other coefficients.
    """
    vectors = run.data("similarity", regime)
    if vectors is None or run.pairs.empty or abs(float(vectors.attrs.get("alpha", np.nan)) - ALPHA) > 1e-12:
        return None
    frame = run.pairs.loc[regime]
    parts = [
        pd.DataFrame(
            {
                "task": frame[f"task_{side}"],
                "partner": frame[f"task_{3 - side}"],
                "gap": frame[f"loss_gap_{side}"],
                "bound": frame[f"bound_{side}"],
            }
        )
        for side in (1, 2)
    ]
    found = pd.concat(parts)
    found = found[np.isfinite(found["gap"].astype(float)) & (found["bound"].astype(float) > 0)]
    return found.assign(tightness=found["gap"] / found["bound"]) if len(found) else None
