# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity by forward hooks with as many passes as taugrid: single models' features once a task, kept."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import Inputs, measure
from layers import ALPHA, BATCH, PAIRS, Study, peak_memory
from torch import Tensor


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))


def compared(u: Tensor, fi: Tensor, fj: Tensor, f0: Tensor, alpha: float) -> Tensor:
    """Cosine, coefficient, baseline, the same of differences from θ0's, and the error: [7, n]."""
    u, fi, fj, f0 = (v.double() for v in (u, fi, fj, f0))
    v = alpha * fi + (1 - alpha) * fj
    cu, cv, ci, cj = u - f0, v - f0, fi - f0, fj - f0
    columns = []
    for a, b, first, second in ((u, v, fi, fj), (cu, cv, ci, cj)):
        columns += [cosine(a, b), (a * b).sum(1) / b.square().sum(1), cosine(first, second)]
    return torch.stack([*columns, (u - v).norm(dim=1) / (fi - fj).norm(dim=1)])


def prepare(inputs: Inputs) -> Callable[[], dict[str, Tensor]]:
    study = Study(inputs)

    @torch.no_grad()
    def run() -> dict[str, Tensor]:
        values: dict[tuple[int, int], list[Tensor]] = {}
        for t, pictures in enumerate(study.pictures):
            parts = pictures.split(BATCH)
            single = [[study.layers(p, x) for x in parts] for p in (study.start, *study.tuned)]
            for place, (i, j) in enumerate(PAIRS):
                if t not in (i, j):
                    continue
                for k, alpha in enumerate(ALPHA):
                    p = study.mixed(i, j, alpha)
                    for number, x in enumerate(parts):
                        f0, fi, fj = (single[m][number] for m in (0, i + 1, j + 1))
                        u = study.layers(p, x)
                        of_layers = [compared(*states, alpha) for states in zip(u, fi, fj, f0, strict=True)]
                        values.setdefault((place, k), []).append(torch.stack(of_layers))  # [L, 7, n]
        means = [
            [torch.cat(values[place, k], 2).mean(2)[:, 0] for k in range(len(ALPHA))] for place in range(len(PAIRS))
        ]
        return {"cosine": torch.stack([torch.stack(row, 1) for row in means])}

    def measured() -> dict[str, Tensor]:
        return run() | memory

    memory = {"peak_memory": peak_memory(run, study.parameter_bytes())}
    return measured


measure("linearity_hooks", prepare)
