# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The diagonal Fisher information of single samples and all classes by torch.func's vmap."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, Parameters, measure
from safetensors.torch import load_file
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

POINTS, AT_ONCE = 32, 8  # that many Jacobians of ten classes are 280 MB


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = inputs.classifier()
    tuned = load_file(inputs.folder / "merging_fisher" / "checkpoints" / "standard" / "task0" / "model.safetensors")
    parameters = {f"encoder.{name}": v for name, v in tuned.items() if f"encoder.{name}" in model.state_dict()}

    def log_p(p: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        logs = functional_call(model, p, (x[None],))[0].log_softmax(0)
        return logs, logs

    def run() -> dict[str, Tensor]:
        total = {name: torch.zeros_like(v) for name, v in parameters.items()}
        for x in inputs.pixels[:POINTS].split(AT_ONCE):
            slopes, logs = vmap(jacrev(log_p, has_aux=True), (None, 0))(parameters, x)
            weight = logs.exp() / POINTS
            for name, slope in slopes.items():  # [points, classes, …]
                total[name] += torch.einsum("nc...,nc->...", slope.square_(), weight)
        return {f"fisher/{name.removeprefix('encoder.')}": v for name, v in total.items()}

    return run


measure("fisher", prepare)
