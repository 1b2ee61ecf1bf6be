# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The forms of the τJp penalty beside linear fine-tuning without one (paper 3, equation 10)."""
