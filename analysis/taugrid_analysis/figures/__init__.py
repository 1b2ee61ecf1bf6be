# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The pictures of the report; each function returns a figure, or None where its group is absent."""
