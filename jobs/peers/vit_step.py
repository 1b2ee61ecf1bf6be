# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step of a small ViT, transformers' own, and a frozen classifier, in PyTorch eager."""

from __future__ import annotations

from collections.abc import Callable

from classified import Classified
from common import Inputs, measure, training_step
from torch import Tensor
from transformers import ViTModel


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    net = ViTModel.from_pretrained(inputs.folder / "vit", add_pooling_layer=False, attn_implementation="sdpa").eval()
    return training_step(inputs, Classified(inputs, "vit", net, "last_hidden_state"))


measure("vit_step", prepare)
