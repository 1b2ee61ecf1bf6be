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
    control_accuracy: float | None = None  # θ0's, where a control task is named
    control_validation_accuracy: float | None = None


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
    eigenvalues: Array | None = None  # [T,C,n] of K(t,t), descending


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
class Choice:
    """The α of each task with least target accuracy that keeps the control; NaN where none does."""

    alpha: Array  # [T]
    target: Array  # [T], test split
    control: Array  # [T]


@dataclass(frozen=True)
class Negation:
    alpha: Array  # [A]
    validation_target: Array  # [T,A]
    validation_control: Array  # [T,A]
    test_target: Array  # [T,A]
    test_control: Array  # [T,A]
    narrow: Choice  # α in [0,1], paper 1
    wide: Choice | None  # α in [0,3], paper 3
    control: str  # the control task's name
    threshold: float  # of θ0's accuracy on the control


@dataclass(frozen=True)
class PairAddition:
    alpha: Array  # [A]
    validation_accuracy: Array  # [P,A,2]
    test_accuracy: Array  # [P,A,2]
    chosen_alpha: Array  # [P]
    absolute: Array  # [P]
    normalized: Array  # [P]
    one_shot_absolute: Array  # [P]
    one_shot_normalized: Array  # [P]


@dataclass(frozen=True)
class TauJp:
    value: Array  # [T,T], [a,b]: mean over x in task b of ‖J(x)τ_a‖²
    control: Array | None  # [T], x in the control task


@dataclass(frozen=True)
class Continuation:
    """Along further, regularised steps from a linear task vector."""

    step: Array  # [S]
    tau_jp: Array  # [S,T,T]
    pair_normalized: Array  # [S,P], α = 1
    normalized: Array  # [S], all tasks, α = 1


@dataclass(frozen=True)
class Multitask:
    accuracy: Array  # [T]
    validation_accuracy: Array  # [T]
    loss: Array  # [T]


@dataclass(frozen=True)
class Cost:
    parameters: float
    trainable_parameters: float
    optimiser_memory: float  # bytes
    peak_memory: float  # bytes, the most alive at once in a training step
    seconds_per_step: float
    forward_flops: float
    jvp_flops: float
    step_flops: float
    batch: int | None


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
