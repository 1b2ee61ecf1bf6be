# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A model of the bench beside CLIP, in plain PyTorch, and its frozen classifier."""

from __future__ import annotations

from common import Inputs
from safetensors.torch import load_file
from taugrid_analysis.recompute import nets
from torch import Tensor, nn

NTK_POINTS = 16


class Classified(nn.Module):
    """A classifier of the features that `net` makes of pictures: a tensor, or the part `output` of what transformers
    returns. Of several tokens the first is taken."""

    def __init__(self, inputs: Inputs, name: str, net: nn.Module | None = None, output: str = "") -> None:
        super().__init__()
        self.net = net if net is not None else nets.load(inputs.folder / name)
        self.output = output
        head = load_file(inputs.folder / name / "head.safetensors")
        self.register_buffer("weight", head["weight"])
        self.register_buffer("bias", head["bias"])
        self.to(inputs.head.device)

    def forward(self, x: Tensor) -> Tensor:
        output = self.net(x)
        z = getattr(output, self.output) if self.output else output
        return nn.functional.linear(z[:, 0] if z.dim() == 3 else z, self.weight, self.bias)
