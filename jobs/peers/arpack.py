# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""λ_max by ARPACK (scipy.sparse.linalg.eigsh) on autograd's Hessian-vector products: the reference value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from common import Inputs, measure
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = inputs.classifier()
    n = inputs.count("hessian_points")
    parameters = list(model.parameters())
    size = sum(p.numel() for p in parameters)

    def run() -> dict[str, Tensor]:
        loss = nn.functional.cross_entropy(model(inputs.pixels[:n]), inputs.labels[:n])
        gradient = parameters_to_vector(torch.autograd.grad(loss, parameters, create_graph=True))

        def product(v: np.ndarray) -> np.ndarray:
            direction = torch.from_numpy(v.astype(np.float32).reshape(-1))
            product = torch.autograd.grad(gradient, parameters, direction, retain_graph=True)
            return parameters_to_vector(product).numpy()

        start = torch.randn(size).numpy()
        operator = LinearOperator((size, size), matvec=product, dtype=np.float32)
        values = eigsh(operator, k=1, which="LM", tol=1e-5, v0=start, return_eigenvectors=False)
        return {"lambda_max": torch.tensor(values, dtype=torch.float64)}

    return run


measure("arpack", prepare)
