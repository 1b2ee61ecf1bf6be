# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step of a multilayer perceptron in PyTorch eager, by torch.optim.AdamW."""

from __future__ import annotations

from collections.abc import Callable

from classified import Classified
from common import Inputs, measure, training_step
from torch import Tensor


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    return training_step(inputs, Classified(inputs, "mlp").train())


measure("mlp_step", prepare)
