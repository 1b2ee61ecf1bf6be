# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""NTK of a ResNet-20 by torch.func: vmap(jacrev), then a product over parameters."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure
from resnet import NTK_POINTS, Classified
from torch import Tensor
from torch.func import functional_call, jacrev, vmap


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model, pixels = Classified(inputs).eval(), inputs.pixels[:NTK_POINTS]
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def logits(p: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(model, p, (x[None],))[0]

    def run() -> dict[str, Tensor]:
        jacobians = vmap(jacrev(logits), (None, 0))(parameters, pixels).values()
        flat = (j.flatten(2) for j in jacobians)  # [points, logits, parameters]
        return {"gram": sum(torch.einsum("ncf,mcf->cnm", j, j) for j in flat)}

    return run


measure("resnet_ntk", prepare)
