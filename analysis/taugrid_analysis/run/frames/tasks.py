# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One row a regime and task: the task's own model, its vector, and the task in sums and differences."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis.run.frames.columns import gathered
from taugrid_analysis.run.results import Results

ORDER = (
    *("points", "accuracy", "accuracy_error", "validation_accuracy", "validation_accuracy_error"),
    *("loss", "norm", "norm_ratio", "lambda_max", "lambda_residual", "products", "tau_jp", "tau_jp_control"),
    *(
        "added",
        "added_error",
        "normalized",
        "normalized_error",
        "negated_alpha",
        "negated",
        "negated_control",
    ),
    *("wide_negated_alpha", "wide_negated", "wide_negated_control"),
)


def tasks(results: Results) -> pd.DataFrame:
    """Index (regime, task): θ0 and joint models are regimes too. What was not measured is NaN.

    points, accuracy, loss, validation_accuracy of the task's own model; norm, norm_ratio of its vector;
    lambda_max; tau_jp over its own points, tau_jp_control over the control's; added, normalized in the sum of
    all at the chosen α; negated_alpha, negated, negated_control at the α in [0,1] that keeps the control,
    wide_… in [0,3].
    """
    parts = {
        name: pd.DataFrame(
            gathered("of_tasks", results, name, ORDER), index=pd.Index(results.tasks, name="task")
        )
        for name in results.models
    }
    frame = pd.concat(parts, names=["regime"])
    frame.insert(0, "classes", np.tile(results.classes, len(parts)))
    return frame
