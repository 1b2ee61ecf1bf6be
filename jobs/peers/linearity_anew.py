# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity as one writes it first: for every pair and coefficient three models' features, then compared."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, Parameters, measure
from layers import ALPHA, BATCH, PAIRS, Study, peak_memory
from torch import Tensor
from torch.nn.functional import cosine_similarity


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    study = Study(inputs)

    def features(p: Parameters, x: Tensor) -> list[Tensor]:
        """Returns every layer's output for all points."""
        parts = [study.layers(p, part) for part in x.split(BATCH)]
        return [torch.cat(layer) for layer in zip(*parts, strict=True)]

    @torch.no_grad()
    def run() -> dict[str, Tensor]:
        means = []
        for i, j in PAIRS:
            x = torch.cat([study.pictures[i], study.pictures[j]])
            for alpha in ALPHA:
                u, fi, fj = (features(p, x) for p in (study.mixed(i, j, alpha), study.tuned[i], study.tuned[j]))
                for a, b, c in zip(u, fi, fj, strict=True):
                    v = alpha * b + (1 - alpha) * c
                    (a * v).sum(1) / v.square().sum(1), cosine_similarity(b, c)  # coefficient, baseline
                    means.append(cosine_similarity(a.double(), v.double()).mean())
        return {"cosine": torch.stack(means).view(len(PAIRS), len(ALPHA), -1).transpose(1, 2)}

    def measured() -> dict[str, Tensor]:
        return run() | memory

    memory = {"peak_memory": peak_memory(run, study.parameter_bytes())}
    return measured


measure("linearity_anew", prepare)
