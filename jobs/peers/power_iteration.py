# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""λ_max by PyHessian's power iteration at its defaults, from nothing: its graph is built in the timed part."""

from __future__ import annotations

from collections.abc import Callable

import torch
from pyhessian import hessian
from torch import Tensor, nn


def largest_eigenvalue(model: nn.Module, inputs: Tensor, labels: Tensor) -> Callable[[], dict[str, Tensor]]:
    def run() -> dict[str, Tensor]:
        values, _ = hessian(model, nn.functional.cross_entropy, data=(inputs, labels), cuda=False).eigenvalues()
        model.zero_grad()
        return {"lambda_max": torch.tensor(values, dtype=torch.float64)}

    return run
