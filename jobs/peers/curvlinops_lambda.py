# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""λ_max by SciPy's ARPACK on curvlinops' Hessian, from nothing, at the tolerance of taugrid's Lanczos."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure
from curvlinops import HessianLinearOperator
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn


def hessian(inputs: Inputs) -> tuple[HessianLinearOperator, list[str]]:
    """The Hessian of the mean loss over the points, and the names of its parameters in their order."""
    model = inputs.classifier()
    n = inputs.count("hessian_points")
    named = dict(model.encoder.named_parameters())
    data = [(inputs.pixels[:n], inputs.labels[:n])]
    operator = HessianLinearOperator(
        model, nn.CrossEntropyLoss(), list(named.values()), data, check_deterministic=False
    )
    return operator, list(named)


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    def run() -> dict[str, Tensor]:
        operator, _ = hessian(inputs)
        start = torch.randn(operator.shape[1]).numpy()
        values = eigsh(operator.to_scipy(), k=1, which="LM", tol=1e-2, v0=start, return_eigenvectors=False)
        return {"lambda_max": torch.tensor(values.copy(), dtype=torch.float64)}

    return run


if __name__ == "__main__":
    measure("curvlinops_lambda", prepare)
