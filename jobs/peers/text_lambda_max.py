# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""λ_max of the bench's models of texts by PyHessian."""

from __future__ import annotations

from collections.abc import Callable

from common import Inputs, measure
from power_iteration import largest_eigenvalue
from text import Texts
from torch import Tensor


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    model = Texts(inputs)
    return largest_eigenvalue(model, model.texts[:model.shape.hessian], model.labels[:model.shape.hessian])


measure("text_lambda_max", prepare)
