# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers whose tables and figures are known, by the names of published/*.toml."""

from __future__ import annotations

PRINTED = ("tangent_space", "tau_jp", "attention_only")  # of regimes: a line a printed number
BASES = "bases"  # of merging methods and partitions: as the paper lays its tables out
PAPERS = (*PRINTED, BASES, "cross_task_linearity")
