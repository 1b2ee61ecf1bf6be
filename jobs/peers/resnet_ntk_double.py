# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""NTK of a ResNet-20 by torch.func in double precision: whose number counts, since in single precision a ReLU's input
near zero falls to either side, by the layout of the convolution, and moves entries by a thousandth."""

from __future__ import annotations

from collections.abc import Callable

from classified import NTK_POINTS, Classified
from common import Inputs, measure, tangent_kernel
from torch import Tensor


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    return tangent_kernel(Classified(inputs, "resnet").double().eval(), inputs.pixels[:NTK_POINTS].double())


measure("resnet_ntk_double", prepare)
