# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the commands print and draw: tables, text, CSV, the report, and the style of its pictures."""
