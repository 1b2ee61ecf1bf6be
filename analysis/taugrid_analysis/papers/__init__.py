# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers, a folder each: published.toml (what it printed), tables.py and figures.py.

The latter two say what of a run stands beside which printed number. models.toml says which models and tasks
the papers have in common.
"""

from __future__ import annotations

PRINTED = ("tangent_space", "tau_jp", "attention_only")  # of regimes: a line a printed number
BASES = "bases"  # of merging methods and partitions: as the paper lays its tables out
PAPERS = (*PRINTED, BASES, "cross_task_linearity")
