# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step of the bench's models of texts in PyTorch eager, by torch.optim.AdamW."""

from __future__ import annotations

from collections.abc import Callable

from common import Inputs, measure, training_step
from text import Texts
from torch import Tensor


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = Texts(inputs, "sdpa")
    inputs.pixels, inputs.labels = model.texts[:model.shape.step], model.labels[:model.shape.step]
    return training_step(inputs, model)


measure("text_step", prepare)
