# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""NTK of the bench's models of texts by torch.func."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure, tangent_kernel
from text import NTK_LOGITS, Texts
from torch import Tensor


class First(torch.nn.Module):
    """The logits that are measured."""

    def __init__(self, model: Texts) -> None:
        super().__init__()
        self.model = model

    def forward(self, texts: Tensor) -> Tensor:
        return self.model(texts)[:, :NTK_LOGITS]


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = Texts(inputs)
    return tangent_kernel(First(model), model.texts[:model.shape.ntk])


measure("text_ntk", prepare)
