# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frames tell of the sum of all task vectors."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers import sampling
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.measured import NOTHING, Measured
from taugrid_analysis.quantities.addition.sums import added
from taugrid_analysis.run.results import Results


def of_tasks(results: Results, regime: str) -> dict[str, Array]:
    """Accuracies of the sum at the α that validation chose."""
    empty, sums, columns = np.full(len(results.tasks), np.nan), added(results, regime), dict[str, Array]()
    for column, attribute in {"added": "accuracy", "normalized": "normalized"}.items():
        columns[column] = getattr(sums, attribute) if sums is not None else empty
        columns[f"{column}_error"] = getattr(sums, f"{attribute}_error") if sums is not None else empty
    return columns


def of_regime(results: Results, regime: str) -> dict[str, float]:
    """As the file has them, with the errors of the points. A joint model is no sum of vectors."""
    data = results.data("addition", regime)
    values: dict[str, float] = {"chosen_alpha": float(data["chosen_alpha"]) if data is not None else np.nan}
    for prefix, alpha in (("", None), ("one_shot_", 1.0)):
        if not prefix and results.regime(regime).joint:
            continue
        sums = added(results, regime, alpha)
        for column, errors in (("absolute", "accuracy_error"), ("normalized", "normalized_error")):
            if data is None or sums is None:
                values[prefix + column] = NOTHING
                continue
            error = float(sampling.of_mean(getattr(sums, errors)))
            values[prefix + column] = Measured(float(data[prefix + column]), error)
    return values
