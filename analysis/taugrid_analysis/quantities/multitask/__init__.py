# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The accuracy (a share) and the loss (nat) of one model that was trained on all tasks (paper 3, appendix E).

/multitask/NAME/accuracy and loss [task].
"""

from __future__ import annotations

from taugrid_analysis.quantities.single_task import OWN
from taugrid_analysis.run.group import Group

GROUPS = {"multitask": Group(OWN, correct=("accuracy",))}
