# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""NTK by torch.func."""

from __future__ import annotations

from collections.abc import Callable

from common import Inputs, measure, tangent_kernel
from torch import Tensor


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    return tangent_kernel(inputs.classifier("ntk_model"), inputs.pixels[: inputs.count("ntk_points")])


measure("ntk", prepare)
