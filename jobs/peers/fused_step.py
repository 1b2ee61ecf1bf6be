# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step in PyTorch eager with AdamW(fused=True)."""

from functools import partial

from common import measure
from standard_step import prepare

measure("fused_step", partial(prepare, fused=True))
