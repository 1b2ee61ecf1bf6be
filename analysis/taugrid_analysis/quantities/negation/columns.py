# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frames tell of negated task vectors."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.measured import NOTHING
from taugrid_analysis.quantities.negation import forgetting
from taugrid_analysis.run.results import Results


def of_tasks(results: Results, regime: str) -> dict[str, Array]:
    """Accuracies at the α in [0,1] that keeps the control, wide_… in [0,3]."""
    variables = {
        f"{prefix}negated{ending}": f"{prefix}{variable}"
        for prefix in ("", "wide_")
        for ending, variable in (("_alpha", "chosen_alpha"), ("", "target"), ("_control", "control"))
    }
    return results.columns("negation", regime, variables)


def of_regime(results: Results, regime: str) -> dict[str, float]:
    values: dict[str, float] = {}
    measured = results.data("negation", regime) is not None
    for prefix in ("", "wide_", "one_shot_"):
        if prefix == "one_shot_":
            left = forgetting.one_shot_forgetting(results, regime) if measured else None
        else:
            left = forgetting.forgetting(results, regime, wide=bool(prefix)) if measured else None
        values[f"{prefix}negated_alpha"] = left.alpha if left is not None else np.nan
        values[f"{prefix}negated"] = left.target if left is not None else NOTHING
        values[f"{prefix}negated_control"] = left.control if left is not None else NOTHING
        values[f"{prefix}kept"] = left.kept if left is not None else np.nan
    return values


def part_of_tasks(kept: float, tasks: int) -> str:
    """The tasks that a mean of negation is over, where no α keeps the control for some; empty: all."""
    return f"{int(kept)} of {tasks} tasks" if np.isfinite(kept) and kept < tasks else ""
