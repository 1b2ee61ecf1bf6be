# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The groups of results.h5 as plain records; shapes and meaning as in the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    architecture: str
    name: str
    parameters: int
    init: str
    fingerprint: str


@dataclass(frozen=True)
class SingleTask:
    accuracy: Array  # [T]
    loss: Array  # [T]
    samples: int | None


@dataclass(frozen=True)
class Similarity:
    cosine: Array  # [T,T]
    norm: Array  # [T]
    norm_ratio: Array  # [T]
    loss_gap: Array | None  # [P,2]


@dataclass(frozen=True)
class Disentanglement:
    error: Array  # [P,A,A], ξ(α1,α2)
    by_task: Array  # [P,2,A,A]
    alpha: Array  # [A]
    metric: str
    samples: int | None


@dataclass(frozen=True)
class Smoothness:
    lambda_max: Array  # [T]
    residual: Array  # [T]
    hvp_count: Array  # [T]
    method: str


@dataclass(frozen=True)
class NTK:
    local_energy: Array  # [T,T,C,2n]


@dataclass(frozen=True)
class Addition:
    alpha: Array  # [A]
    validation_accuracy: Array  # [A,T]
    test_accuracy: Array  # [A,T]
    chosen_alpha: float
    absolute: float
    normalized: float
    one_shot_absolute: float
    one_shot_normalized: float


@dataclass(frozen=True)
class Training:
    loss: Array  # [T,steps]
    seconds: Array  # [T]


@dataclass(frozen=True)
class Unit:
    key: str
    rank: int
    seconds: float
    device: str

    @property
    def kind(self) -> str:
        """The first part of the key: what the unit measures."""
        return self.key.split("/", 1)[0]
