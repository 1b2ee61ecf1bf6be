# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step of a small ConvNeXt in PyTorch eager, by torch.optim.AdamW."""

from __future__ import annotations

from collections.abc import Callable

from common import Inputs, measure, training_step
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import ConvNextModel


class Classified(nn.Module):
    """transformers' own, without stochastic depth, and a frozen head."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        folder = inputs.folder / "convnext"
        self.net = ConvNextModel.from_pretrained(folder).train()
        head = load_file(folder / "head.safetensors")
        self.register_buffer("weight", head["weight"])
        self.register_buffer("bias", head["bias"])

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(self.net(x).pooler_output, self.weight, self.bias)


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    return training_step(inputs, Classified(inputs))


measure("convnext_step", prepare)
