# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A further product Hv of curvlinops' Hessian, v being the one that taugrid bench took."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure
from curvlinops_lambda import hessian
from safetensors.torch import load_file
from torch import Tensor


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    operator, names = hessian(inputs)
    taken = load_file(inputs.folder / "results" / "hvp-further.safetensors")
    parts = [taken[f"v/{name}"] for name in names]
    v = torch.cat([p.flatten() for p in parts])

    def run() -> dict[str, Tensor]:
        products = (operator @ v).split([p.numel() for p in parts])
        return {f"product/{name}": part.clone() for name, part in zip(names, products, strict=True)}

    return run


measure("curvlinops_product", prepare)
