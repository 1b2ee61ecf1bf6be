# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""NTK of a ResNet-20 by torch.func."""

from __future__ import annotations

from collections.abc import Callable

from classified import NTK_POINTS, Classified
from common import Inputs, measure, tangent_kernel
from torch import Tensor


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    return tangent_kernel(Classified(inputs, "resnet").eval(), inputs.pixels[:NTK_POINTS])


measure("resnet_ntk", prepare)
