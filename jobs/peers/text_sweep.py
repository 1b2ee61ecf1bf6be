# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A linear sweep of the bench's decoder with a JVP (torch.func) at each coefficient."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure
from safetensors.torch import load_file
from text import SCALE, Texts
from torch import Tensor, nn
from torch.func import functional_call, jvp

STEPS = 21


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = Texts(inputs)
    theta0 = {name: p.detach() for name, p in model.encoder.named_parameters()}
    fine_tuned = load_file(inputs.folder / model.shape.folder / "tuned" / "model.safetensors")
    tau = {name: fine_tuned[f"model.{name}"].to(p.device) - p for name, p in theta0.items()}

    def features(p: dict[str, Tensor]) -> Tensor:
        states = functional_call(model.encoder, p, kwargs={"input_ids": model.texts[:, 1:], "use_cache": False})
        return states.last_hidden_state[:, -1]

    @torch.no_grad()
    def run() -> dict[str, Tensor]:
        accuracy = torch.zeros(STEPS, dtype=torch.float64)
        for k in range(STEPS):
            value, slope = jvp(features, (theta0,), ({name: 0.05 * k * v for name, v in tau.items()},))
            logits = SCALE * nn.functional.normalize(value + slope, dim=-1) @ model.head.T
            accuracy[k] = (logits.argmax(-1) == model.labels).double().mean()
        return {"accuracy": accuracy}

    return run


measure("text_sweep", prepare)
