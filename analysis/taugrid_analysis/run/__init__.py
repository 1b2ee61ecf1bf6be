# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One finished run: its file opened and checked, its groups as data sets, its numbers as frames."""
