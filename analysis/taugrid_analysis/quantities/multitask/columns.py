# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frame of regimes tells of a model that was trained on all tasks."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers import means
from taugrid_analysis.numbers.measured import NOTHING, measured_mean
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.results import Results


def of_regime(results: Results, regime: str) -> dict[str, float]:
    """Its accuracy, and that over the one of each task's own model; nothing of another regime."""
    trained_alone = results.regime(regime).single
    if not trained_alone:
        return {}
    values: dict[str, float] = {"absolute": NOTHING, "normalized": NOTHING}
    joint = accuracies.accuracies(results, "multitask", regime, "accuracy")
    single = accuracies.accuracies(results, "single_task", trained_alone, "accuracy")
    if joint is not None:
        value = joint.value.to_numpy()
        values["absolute"] = measured_mean(value, joint.error)
        if single is not None:
            errors = [accuracies.ratio_error(joint, (t,), single, t) for t in range(len(value))]
            shares = means.normalised(value, single.value.to_numpy())
            values["normalized"] = measured_mean(shares, np.array(errors))
    return values
