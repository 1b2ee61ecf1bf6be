# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity over several runs: what pre-training, steps and data do to it (paper 5, section 5)."""
