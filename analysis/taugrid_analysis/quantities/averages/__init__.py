# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Averages of models beside ensembles: accuracies (shares) of sets of models (paper 5, section 4).

weights: f of the mean of the models' weights; logits, features: means of the models' logits, of their
outputs; gap (theorem 4.3): ‖u − v‖/‖v − f(θ0)‖ of θ0 + Σ τ/(k + 1) against the mean of f(θ0) and of the k
models' outputs. /averages/R/… [set, task], NaN of tasks outside of a set; sets: which models are in it.
"""

from __future__ import annotations

from taugrid_analysis.run.group import ROWS, Group, alike

GROUPS = {
    "averages": Group(
        {"sample_index": ROWS["sample_index"]}
        | alike(("task_set", "task"), "sets", "weights", "logits", "features")
        | alike(("task_set", "task"), "gap", needed=False)
    )
}
