# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step in PyTorch eager: transformers' model, its default attention, torch.optim.AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure
from torch import Tensor, nn


def prepare(inputs: Inputs, fused: bool = False, compiled: bool = False) -> Callable[[], dict[str, Tensor]]:
    model = inputs.classifier(attention="sdpa").train()
    settings = inputs.settings
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=settings["learning_rate"], weight_decay=settings["weight_decay"], fused=fused
    )
    logits = torch.compile(model) if compiled else model
    losses: list[float] = []

    def run() -> dict[str, Tensor]:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(logits(inputs.pixels), inputs.labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        optimiser.step()
        losses.append(loss.item())
        return {"losses": torch.tensor(losses, dtype=torch.float64)}

    return run


if __name__ == "__main__":
    measure("standard_step", prepare)
