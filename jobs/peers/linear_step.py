# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step of the linearised model in PyTorch eager: torch.func.jvp, gradients through the tangent."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, Parameters, measure
from torch import Tensor, nn
from torch.func import functional_call, jvp


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = inputs.classifier()
    settings = inputs.settings
    theta0 = {name: p.detach() for name, p in model.encoder.named_parameters()}
    tau = inputs.task_vector("linear", "first")
    theta = {k: (v + 0.1 * tau[k]).requires_grad_(True) for k, v in theta0.items()}
    optimiser = torch.optim.AdamW(
        theta.values(), lr=settings["learning_rate"], weight_decay=settings["weight_decay"]
    )
    losses: list[float] = []

    def encode(p: Parameters) -> Tensor:
        return functional_call(model.encoder, p, kwargs={"pixel_values": inputs.pixels}).image_embeds

    def run() -> dict[str, Tensor]:
        optimiser.zero_grad()
        value, slope = jvp(encode, (theta0,), ({k: theta[k] - theta0[k] for k in theta0},))
        loss = nn.functional.cross_entropy(model.logits(value + slope), inputs.labels)
        loss.backward()
        nn.utils.clip_grad_norm_(theta.values(), settings["clip"])
        optimiser.step()
        losses.append(loss.item())
        return {"losses": torch.tensor(losses, dtype=torch.float64)}

    return run


measure("linear_step", prepare)
