# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the τJp paper (paper 3) printed, and what of a run stands beside it."""
