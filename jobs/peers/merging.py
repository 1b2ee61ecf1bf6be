# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What peers of the case merge/ties share: its eight vectors of 25 million numbers, and the part of the merged one that
is compared."""

from __future__ import annotations

from collections.abc import Callable

import timing
import torch
from safetensors.torch import save_file
from torch import Tensor

VECTORS, NUMBERS, SEED = 8, 25_000_000, 14
COMPARED = 500_000  # where none has the magnitude of a cut: of such, mergekit keeps some by chance, the case all


def vectors() -> list[Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    return [torch.randn(NUMBERS, generator=generator) for _ in range(VECTORS)]


def measure(name: str, prepare: Callable[[list[Tensor]], Callable[[], Tensor]]) -> None:
    options = timing.arguments(name)
    torch.set_num_threads(1)
    with torch.no_grad():
        merged = timing.repeated(name, options, prepare(vectors()))
    save_file({"tau": merged[:COMPARED].clone()}, timing.results_of(name, options))
