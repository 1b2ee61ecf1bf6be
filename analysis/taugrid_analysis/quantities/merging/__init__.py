# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merged models of all tasks, method beside method: accuracies (shares) of θ0 + α τ, τ merged of all.

formulas.py has the methods of vectors alone, TIES among them; data_formulas.py and masks.py those that take
data. /merging/METHOD/R/test_accuracy [alpha, task], absolute, normalized at the chosen coefficient α, and
what a merge costs: density (the share of τ that is not zero), passes over the vectors, bytes read, seconds,
inputs forwards and backwards.
"""

from __future__ import annotations

from taugrid_analysis.run.group import ALPHA, CHOSEN, ROWS, TASK, Group, Variable, alike

GROUPS = {
    "merging": Group(
        alike(("alpha", "task"), "validation_accuracy", "test_accuracy")
        | alike(TASK, "accuracy")
        | alike((), *CHOSEN, "density", "passes", "bytes")
        | alike((), "seconds", "forward_passes", "backward_passes", needed=False)
        | alike((), "masks", "mask_numbers", needed=False)
        | alike(TASK, "norm", "floored", "labels", "mask_density", "tall_lambda", needed=False)
        | {
            "data_sample_index": Variable(("task", "data_point"), needed=False),
            "lambda": Variable(("task", "parameter"), needed=False),
            "entropy": Variable(("merging_step",), needed=False),
            "mask_loss": Variable(("task", "merging_step"), needed=False),
            "mask_accuracy": Variable(("task", "mask_lambda"), needed=False),
            "loss": Variable(("merging_step",), needed=False),
        }
        | ROWS,
        ALPHA,
        by_method=True,
    )
}
