# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The product Hv that taugrid bench took, by autograd's second backward pass in float64: the reference value."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure
from safetensors.torch import load_file
from torch import Tensor, nn


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = inputs.classifier().double()
    n = inputs.count("hessian_points")
    named = dict(model.encoder.named_parameters())
    taken = load_file(inputs.folder / "results" / "hvp-further.safetensors")

    def run() -> dict[str, Tensor]:
        loss = nn.functional.cross_entropy(model(inputs.pixels[:n].double()), inputs.labels[:n])
        gradients = torch.autograd.grad(loss, list(named.values()), create_graph=True)
        products = torch.autograd.grad(gradients, list(named.values()), [taken[f"v/{k}"].double() for k in named])
        return {f"product/{name}": product for name, product in zip(named, products, strict=True)}

    return run


measure("autograd_product", prepare)
