# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""τJp: how far a task vector moves the linearised output on another task's points (paper 3, equation 9).

value[a, b] = E over x of task b of ‖J(x) τ_a‖², J the Jacobian of the encoder's output at θ0, so that the
unit is that of a squared output. The paper's τJp of a pair is the mean of both directions, ½(value[a, b] +
value[b, a]); 0 means that the tasks do not meet. /tau_jp/R/value [task, points_of], control [task];
validation_…: on validation points.
"""

from __future__ import annotations

from taugrid_analysis.run.group import ROWS, TASK, Group, Variable

GROUPS = {
    "tau_jp": Group(
        {
            "value": Variable(("task", "points_of")),
            "control": Variable(TASK, needed=False),
            "validation_value": Variable(
                ("task", "points_of"),
                needed=False,
                since=2,
                without="τJp is a predictor measured on test points",
            ),
            "validation_control": Variable(TASK, needed=False),
        }
        | ROWS
    )
}
