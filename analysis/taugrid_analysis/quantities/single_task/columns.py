# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frames tell of the tasks' own models, and of joint ones in their place."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.measured import NOTHING, measured_mean
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.results import Results


def group_of(results: Results, regime: str) -> str:
    return "multitask" if results.regime(regime).joint else "single_task"


def of_tasks(results: Results, regime: str) -> dict[str, Array]:
    empty, columns = np.full(len(results.tasks), np.nan), dict[str, Array]()
    for column in ("accuracy", "validation_accuracy"):
        scores = accuracies.accuracies(results, group_of(results, regime), regime, column)
        if column == "accuracy":
            columns["points"] = scores.points if scores is not None else np.zeros(len(empty), dtype=int)
        columns[column] = scores.value.to_numpy() if scores is not None else empty
        columns[f"{column}_error"] = scores.error if scores is not None else empty
    return columns | results.columns(group_of(results, regime), regime, {"loss": "loss"})


def of_regime(results: Results, regime: str) -> dict[str, float]:
    scores = accuracies.accuracies(results, group_of(results, regime), regime, "accuracy")
    return {"single": measured_mean(scores.value.to_numpy(), scores.error) if scores is not None else NOTHING}
