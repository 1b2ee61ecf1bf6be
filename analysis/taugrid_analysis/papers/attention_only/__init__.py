# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the attention paper (paper 4) printed, and what of a run stands beside it."""
