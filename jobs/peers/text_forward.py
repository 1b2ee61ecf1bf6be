# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Evaluation by transformers' BERT or Llama, its default attention, all texts padded to the longest as ours are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure
from text import Texts
from torch import Tensor


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = Texts(inputs, "sdpa")

    def run() -> dict[str, Tensor]:
        with torch.inference_mode():
            return {"logits": model(model.texts)}

    return run


measure("text_forward", prepare)
