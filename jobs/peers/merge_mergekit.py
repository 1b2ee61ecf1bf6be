# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""TIES by mergekit, all vectors as one tensor each: it trims tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable

import torch
from mergekit.merge_methods import merge_tensors
from merging import NUMBERS, measure
from torch import Tensor


def prepare(vectors: list[Tensor]) -> Callable[[], Tensor]:
    models = [torch.zeros_like(vectors[0]), *vectors]  # θ0 = 0
    # It keeps ⌊density · n⌋ numbers, the case one more, as ties-merging's threshold does.
    parameters = {"weight": 1.0, "density": (NUMBERS // 5 + 1.5) / NUMBERS, "normalize": True}
    return lambda: merge_tensors(models, "ties", base_index=0, parameters=parameters)


measure("merge_mergekit", prepare)
