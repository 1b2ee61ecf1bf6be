# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Disentanglement grid of a linearised pair by a loop with a JVP (torch.func) at each point."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, Parameters, alpha_grid, measure
from torch import Tensor
from torch.func import functional_call, jvp

STEPS = 20


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = inputs.classifier()
    theta0 = {name: p.detach() for name, p in model.encoder.named_parameters()}
    taus = [inputs.task_vector("linear", task) for task in ("first", "second")]
    n = inputs.count("grid_points")
    pixels = [inputs.pixels[:n], inputs.pixels[n : 2 * n]]
    alpha = alpha_grid(STEPS).tolist()

    def predictions(tangent: Parameters, x: Tensor) -> Tensor:
        def encode(p: Parameters) -> Tensor:
            return functional_call(model.encoder, p, kwargs={"pixel_values": x}).image_embeds

        value, slope = jvp(encode, (theta0,), (tangent,))
        return model.logits(value + slope).argmax(-1)

    @torch.no_grad()
    def run() -> dict[str, Tensor]:
        error = torch.zeros(2, STEPS, STEPS, dtype=torch.float64)
        alone = [
            [predictions({k: a * tau[k] for k in theta0}, x) for a in alpha]
            for tau, x in zip(taus, pixels, strict=True)
        ]
        for r, a in enumerate(alpha):
            for c, b in enumerate(alpha):
                tangent = {k: a * taus[0][k] + b * taus[1][k] for k in theta0}
                for side, x in enumerate(pixels):
                    merged = predictions(tangent, x)
                    error[side, r, c] = (merged != alone[side][c if side else r]).double().mean()
        return {"error_by_task": error}

    return run


measure("linear_grid", prepare)
