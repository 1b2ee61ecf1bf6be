# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What predicts how badly two task vectors get along: rank correlations with the accuracy of their sum."""
