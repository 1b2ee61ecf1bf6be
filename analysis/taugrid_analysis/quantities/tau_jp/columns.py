# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frames tell of τJp."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.means import mean, symmetric
from taugrid_analysis.numbers.means import of_pairs as at_pairs
from taugrid_analysis.run.results import Results


def of_tasks(results: Results, regime: str) -> dict[str, Array]:
    """On the task's own points, and on the control's."""
    product = results.data("tau_jp", regime)
    diagonal = (
        np.diag(product["value"].to_numpy()) if product is not None else np.full(len(results.tasks), np.nan)
    )
    return {"tau_jp": diagonal} | results.columns("tau_jp", regime, {"tau_jp_control": "control"})


def of_pairs(results: Results, regime: str) -> dict[str, Array]:
    """The mean of both directions, and each (τ of task 1 on points of task 2: tau_jp_12)."""
    product, pairs = results.twin("tau_jp", regime), results.pairs
    columns = dict.fromkeys(("tau_jp", "tau_jp_12", "tau_jp_21", "tau_jp_validation"), results.nothing())
    if product is None:
        return columns
    value = product["value"].to_numpy()
    columns["tau_jp"] = at_pairs(symmetric(value), pairs)
    columns["tau_jp_12"], columns["tau_jp_21"] = at_pairs(value, pairs), at_pairs(value.T, pairs)
    if "validation_value" in product:
        columns["tau_jp_validation"] = at_pairs(symmetric(product["validation_value"].to_numpy()), pairs)
    return columns


def of_regime(results: Results, regime: str) -> dict[str, float]:
    product = results.twin("tau_jp", regime)
    if product is None:
        return {"tau_jp": np.nan}
    return {"tau_jp": mean(at_pairs(symmetric(product["value"].to_numpy()), results.pairs))}
