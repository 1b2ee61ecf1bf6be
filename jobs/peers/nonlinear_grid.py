# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Disentanglement grid of a non-linear pair by a loop that predicts with the single models again at each point."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, Parameters, alpha_grid, measure
from torch import Tensor
from torch.func import functional_call

STEPS = 7


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = inputs.classifier(attention="sdpa")
    theta0 = {name: p.detach() for name, p in model.encoder.named_parameters()}
    taus = [inputs.task_vector("standard", task) for task in ("first", "second")]
    n = inputs.count("grid_points")
    pixels = [inputs.pixels[:n], inputs.pixels[n : 2 * n]]
    alpha = alpha_grid(STEPS).tolist()

    def predictions(p: Parameters, x: Tensor) -> Tensor:
        z = functional_call(model.encoder, p, kwargs={"pixel_values": x}).image_embeds
        return model.logits(z).argmax(-1)

    def combine(*terms: tuple[float, Parameters]) -> Parameters:
        return {k: v + sum(a * tau[k] for a, tau in terms) for k, v in theta0.items()}

    @torch.no_grad()
    def run() -> dict[str, Tensor]:
        error = torch.zeros(2, STEPS, STEPS, dtype=torch.float64)
        for r, a in enumerate(alpha):
            for c, b in enumerate(alpha):
                merged = combine((a, taus[0]), (b, taus[1]))
                for side, x in enumerate(pixels):
                    single = combine((b if side else a, taus[side]))
                    error[side, r, c] = (predictions(merged, x) != predictions(single, x)).double().mean()
        return {"error_by_task": error}

    return run


measure("nonlinear_grid", prepare)
