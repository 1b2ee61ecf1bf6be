# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers whose tables and figures are known, by the names of published/*.toml."""

PRINTED = ("tangent_space", "tau_jp", "attention_only")  # with tables of numbers
PAPERS = (*PRINTED, "cross_task_linearity")
