# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step in PyTorch eager: transformers' model, its default attention, torch.optim.AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure, training_step
from torch import Tensor


def prepare(inputs: Inputs, fused: bool = False, compiled: bool = False) -> Callable[[], dict[str, Tensor]]:
    model = inputs.classifier(attention="sdpa").train()
    return training_step(inputs, model, torch.compile(model) if compiled else None, fused)


if __name__ == "__main__":
    measure("standard_step", prepare)
