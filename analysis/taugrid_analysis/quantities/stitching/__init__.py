# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Stitched models: features are mixed at one block, and θ0's blocks follow (paper 5, section 4; shares).

/stitching/R/pair [pair, side, lambda, block]: both tasks' features averaged; single [task, points_of, lambda,
block]: one task's; negated, edited [task, lambda, block]: 2f(θ0) − f(θ0 + λτ), and f(θ0 − λτ).
"""

from __future__ import annotations

from taugrid_analysis.run.group import ROWS, Group, Variable, alike

GROUPS = {
    "stitching": Group(
        {"both": Variable(("pair", "side", "lambda", "block"), path="pair", needed=False)}
        | {"pair_control": Variable(("pair", "lambda", "block"), needed=False)}
        | {"single": Variable(("task", "points_of", "lambda", "block"))}
        | alike(("task", "lambda", "block"), "negated", "edited")
        | alike(
            ("task", "lambda", "block"),
            *("single_control", "negated_control", "edited_control"),
            needed=False,
        )
        | {"control_sample_index": Variable(("control_point",), needed=False)}
        | {"sample_index": ROWS["sample_index"]},
        axes={"lambda": ("lambda",), "block": ("block",)},
    )
}
