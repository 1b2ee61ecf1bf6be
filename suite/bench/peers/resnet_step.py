# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step of a ResNet-20 in PyTorch eager, by torch.optim.AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure
from resnet import Classified
from torch import Tensor, nn


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model, settings = Classified(inputs).train(), inputs.settings
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=settings["learning_rate"], weight_decay=settings["weight_decay"]
    )
    losses: list[float] = []

    def run() -> dict[str, Tensor]:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs.pixels), inputs.labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        optimiser.step()
        losses.append(loss.item())
        return {"losses": torch.tensor(losses, dtype=torch.float64)}

    return run


measure("resnet_step", prepare)
