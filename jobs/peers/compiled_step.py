# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step whose model went through torch.compile, with AdamW(fused=True)."""

from functools import partial

from common import measure
from standard_step import prepare

measure("compiled_step", partial(prepare, fused=True, compiled=True))
