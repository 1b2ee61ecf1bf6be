# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step of a small ConvNeXt, transformers' own without stochastic depth, in PyTorch eager."""

from __future__ import annotations

from collections.abc import Callable

from classified import Classified
from common import Inputs, measure, training_step
from torch import Tensor
from transformers import ConvNextModel


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    net = ConvNextModel.from_pretrained(inputs.folder / "convnext").train()
    return training_step(inputs, Classified(inputs, "convnext", net, "pooler_output"))


measure("convnext_step", prepare)
