# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The bench's ResNet-20 and its frozen head in plain PyTorch."""

from __future__ import annotations

from common import Inputs
from safetensors.torch import load_file
from taugrid_analysis.recompute import nets
from torch import Tensor, nn

NTK_POINTS = 16


class Classified(nn.Module):
    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.net = nets.load(inputs.folder / "resnet")
        head = load_file(inputs.folder / "resnet" / "head.safetensors")
        self.register_buffer("weight", head["weight"])
        self.register_buffer("bias", head["bias"])

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(self.net(x), self.weight, self.bias)
