# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers: a folder each, with what it printed and what of a run stands beside that."""
