# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One row a regime and task: the task's own model, its vector, and the task in sums and differences."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.addition import sums
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.regimes import JOINT
from taugrid_analysis.run.results import Results


def tasks(results: Results) -> pd.DataFrame:
    """Index (regime, task): θ0 and joint models are regimes too. What was not measured is NaN.

    points, accuracy, loss, validation_accuracy of the task's own model; norm, norm_ratio of its vector;
    lambda_max; tau_jp over its own points, tau_jp_control over the control's; added, normalized in the sum of
    all at the chosen α; negated_alpha, negated, negated_control at the α in [0,1] that keeps the control,
    wide_… in [0,3].
    """
    names = [results.start, *results.regimes, *(n for n in results.names("multitask") if n in JOINT)]
    parts = {
        name: pd.DataFrame(_columns(results, name), index=pd.Index(results.tasks, name="task"))
        for name in names
    }
    frame = pd.concat(parts, names=["regime"])
    frame.insert(0, "classes", np.tile(results.classes, len(parts)))
    return frame


def _columns(results: Results, name: str) -> dict[str, Array]:
    empty = np.full(len(results.tasks), np.nan)
    found: dict[str, Array] = {}

    def take(group: str, variables: dict[str, str]) -> None:
        data = results.data(group, name)
        for column, variable in variables.items():
            known = data is not None and variable in data
            found[column] = data[variable].to_numpy() if data is not None and known else empty

    own = "multitask" if name in JOINT else "single_task"
    for column in ("accuracy", "validation_accuracy"):
        one = accuracies.accuracies(results, own, name, column)
        if column == "accuracy":
            found["points"] = one.points if one is not None else np.zeros(len(empty), dtype=int)
        found[column] = one.value.to_numpy() if one is not None else empty
        found[f"{column}_error"] = one.error if one is not None else empty
    take(own, {"loss": "loss"})
    take("similarity", {"norm": "norm", "norm_ratio": "norm_ratio"})
    take("smoothness", {"lambda_max": "lambda_max", "lambda_residual": "residual", "products": "hvp_count"})
    product = results.data("tau_jp", name)
    found["tau_jp"] = np.diag(product["value"].to_numpy()) if product is not None else empty
    take("tau_jp", {"tau_jp_control": "control"})
    added = sums.added(results, name)
    for column, attribute in {"added": "accuracy", "normalized": "normalized"}.items():
        found[column] = getattr(added, attribute) if added is not None else empty
        found[f"{column}_error"] = getattr(added, f"{attribute}_error") if added is not None else empty
    for prefix in ("", "wide_"):
        take(
            "negation",
            {
                f"{prefix}negated_alpha": f"{prefix}chosen_alpha",
                f"{prefix}negated": f"{prefix}target",
                f"{prefix}negated_control": f"{prefix}control",
            },
        )
    return found
