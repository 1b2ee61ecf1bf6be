# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Task addition of linearised models by a loop with a JVP (torch.func) at each coefficient, as the papers do."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, Parameters, measure
from torch import Tensor
from torch.func import functional_call, jvp

STEPS = 21


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = inputs.classifier()
    theta0 = {name: p.detach() for name, p in model.encoder.named_parameters()}
    taus = [inputs.task_vector("linear", task, run="sweep") for task in ("first", "second")]
    total = {k: taus[0][k] + taus[1][k] for k in theta0}
    n = inputs.count("grid_points")
    points = [(inputs.pixels[i * n : (i + 1) * n], inputs.labels[i * n : (i + 1) * n]) for i in range(2)]

    def logits(tangent: Parameters, x: Tensor) -> Tensor:
        def encode(p: Parameters) -> Tensor:
            return functional_call(model.encoder, p, kwargs={"pixel_values": x}).image_embeds

        value, slope = jvp(encode, (theta0,), (tangent,))
        return model.logits(value + slope)

    @torch.no_grad()
    def run() -> dict[str, Tensor]:
        accuracy = torch.zeros(2, STEPS, dtype=torch.float64)
        for k in range(STEPS):
            tangent = {name: 0.05 * k * v for name, v in total.items()}
            for task, (x, y) in enumerate(points):
                accuracy[task, k] = (logits(tangent, x).argmax(-1) == y).double().mean()
        return {"accuracy": accuracy[1]}

    return run


measure("linear_sweep", prepare)
