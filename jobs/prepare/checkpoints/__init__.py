# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's checkpoints are read without running their code, and written as Hugging Face's folders."""
