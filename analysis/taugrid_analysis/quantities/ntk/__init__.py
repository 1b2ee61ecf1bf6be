# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The NTK at θ0, K(x, x') = ⟨∇f(x), ∇f(x')⟩, and where its eigenfunctions live (paper 1, section 6.1).

local_energy: Σ φ_ρ(x)² over the eigenfunctions φ_ρ of the kernel between a trained task's points and those of
it and of a control task (no unit); a share above its null says that they are localised on the trained task.
/ntk/NAME/local_energy [task, control, logit, both_points], eigenvalues [task, logit, point], gram; null_…:
more of the same task as control.
"""

from __future__ import annotations

from taugrid_analysis.run.group import ROWS, Group, Variable

GROUPS = {
    "ntk": Group(
        {
            "local_energy": Variable(("task", "control", "logit", "both_points")),
            "eigenvalues": Variable(("task", "logit", "point"), needed=False),
            "gram": Variable(
                ("task", "logit", "point", "points_of", "other_point"), needed=False, whole=False
            ),
            "null_share": Variable(
                ("task", "logit", "draw"),
                needed=False,
                since=2,
                without="the NTK's shares stand without their null, and the NTK is no predictor",
            ),
            "null_energy": Variable(
                ("task", "logit", "draw", "both_points"),
                needed=False,
                since=2,
                without="the histograms of local energy have no third colour",
            ),
            "null_gram": Variable(
                ("task", "logit", "point", "draw", "other_point"), needed=False, whole=False
            ),
            "null_sample_index": Variable(("task", "draw", "point"), needed=False),
            "rank": Variable(
                ("task", "control", "logit"),
                needed=False,
                since=2,
                without="the rank that the NTK's cut-off kept is not known",
            ),
            "sample_index": ROWS["sample_index"],
        }
    )
}
