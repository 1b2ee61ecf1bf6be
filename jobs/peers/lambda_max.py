# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""λ_max of the bench's CLIP by PyHessian."""

from __future__ import annotations

from collections.abc import Callable

from common import Inputs, measure
from power_iteration import largest_eigenvalue
from torch import Tensor


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    n = inputs.count("hessian_points")
    return largest_eigenvalue(inputs.classifier(), inputs.pixels[:n], inputs.labels[:n])


measure("lambda_max", prepare)
