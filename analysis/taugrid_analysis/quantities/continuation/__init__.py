# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Further steps with the τJp regulariser from linear task vectors (paper 3, figure 3).

/continuation/R/tau_jp [step, task, points_of], as of /tau_jp; pair_normalized [step, pair] and normalized
[step]: normalised accuracies (shares) at α = 1.
"""

from __future__ import annotations

from taugrid_analysis.run.group import Group, Variable

GROUPS = {
    "continuation": Group(
        {
            "tau_jp": Variable(("step", "task", "points_of")),
            "pair_normalized": Variable(("step", "pair")),
            "normalized": Variable(("step",)),
            "accuracy": Variable(("step", "task"), needed=False),
        },
        axes={"step": ("step",)},
    )
}
