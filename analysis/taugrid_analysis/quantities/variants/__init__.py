# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Several fine-tunings of the same data: learning rate, steps and seed of each, which stands for a task.

/variants/R/learning_rate, steps, seed [task].
"""

from __future__ import annotations

from taugrid_analysis.run.group import TASK, Group, alike

GROUPS = {"variants": Group(alike(TASK, "learning_rate", "steps", "seed"))}
