# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a training step costs (paper 1, appendix B; paper 4, table 4).

/cost/R: parameters and trainable_parameters (numbers), optimiser_memory and peak_memory (bytes),
seconds_per_step, and forward_flops, jvp_flops, step_flops (floating point operations).
"""

from __future__ import annotations

from taugrid_analysis.run.group import Group, alike

GROUPS = {
    "cost": Group(
        alike(
            (),
            *("parameters", "trainable_parameters", "optimiser_memory", "peak_memory"),
            *("seconds_per_step", "forward_flops", "jvp_flops", "step_flops"),
        )
    )
}
