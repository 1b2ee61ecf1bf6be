# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One row a regime: means over tasks or pairs."""

from __future__ import annotations

import pandas as pd

from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.run.frames.columns import gathered
from taugrid_analysis.run.results import Results

ORDER = (
    *("single", "chosen_alpha", "absolute", "normalized", "one_shot_absolute", "one_shot_normalized"),
    *("pairs", "one_shot_pairs", "negated_alpha", "negated", "negated_control", "kept", "wide_negated_alpha"),
    *("wide_negated", "wide_negated_control", "wide_kept", "one_shot_negated_alpha", "one_shot_negated"),
    *("one_shot_negated_control", "one_shot_kept", "xi_near", "xi_one", "xi_box", "xi_grid", "tau_jp"),
    *("norm", "cosine", "lambda_max"),
)


def summary(results: Results) -> pd.DataFrame:
    """Index regime: θ0, the regimes, joint models. What was not measured is NaN.

    single: accuracy of the tasks' own models (of a joint model: of that one); chosen_alpha, absolute,
    normalized of the sum of all task vectors, one_shot_… at α = 1; pairs, one_shot_pairs: normalised accuracy
    of pairs' sums; negated_alpha, negated, negated_control, kept (tasks whose control an α in [0,1] keeps),
    wide_… in [0,3], one_shot_… at α = 1; xi_near, xi_one, xi_box, xi_grid over the pairs; tau_jp of other
    tasks; norm, cosine, lambda_max (mean absolute values).
    """
    rows = [_row(gathered("of_regime", results, name, ORDER)) for name in results.models]
    return pd.DataFrame(rows, index=pd.Index(results.models, name="regime"))


def _row(numbers: dict[str, float]) -> dict[str, float]:
    """A measured number has a second column, of its error."""
    row: dict[str, float] = {}
    for column, value in numbers.items():
        row[column] = float(value)
        if isinstance(value, Measured):
            row[f"{column}_error"] = value.error
    return row
