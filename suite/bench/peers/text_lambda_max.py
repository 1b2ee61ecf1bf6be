# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""λ_max of the bench's MiniLM by PyHessian's power iteration at its defaults, its graph in the timed part."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure
from pyhessian import hessian
from text import STEP_TEXTS, Texts
from torch import Tensor, nn


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = Texts(inputs)
    data = (model.texts[:STEP_TEXTS], model.labels[:STEP_TEXTS])

    def run() -> dict[str, Tensor]:
        values, _ = hessian(model, nn.functional.cross_entropy, data=data, cuda=False).eigenvalues()
        model.zero_grad()
        return {"lambda_max": torch.tensor(values, dtype=torch.float64)}

    return run


measure("text_lambda_max", prepare)
