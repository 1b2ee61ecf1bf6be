# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Bases without clusters again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
from torch import Tensor

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.negation.recompute import at_chosen_alpha, choice
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.checks import (
    Check,
    Place,
    Reading,
    exact,
    names,
    places,
    relative,
    share,
    stored,
)
from taugrid_analysis.recompute.models import (
    SPLITS,
    Right,
    accuracies,
    chosen_row,
    right_along,
    right_at,
    rows_of,
)
from taugrid_analysis.recompute.oracle import Oracle, flat

GROUP = "low_rank"
SLOW = 20  # places of one quantity: each is a model


def autoencoder(gram: Tensor, m: int, settings: dict[str, float], seed: int) -> tuple[Tensor, Tensor]:
    """B [T,M] and W [M,T] by torch.optim.Adam."""
    count = len(gram)
    a = torch.randn(
        (count, m), generator=torch.Generator().manual_seed(seed), dtype=torch.double
    ).requires_grad_()
    w = torch.zeros((m, count), dtype=torch.double, requires_grad=True)
    adam = torch.optim.Adam([a, w], lr=settings["learning_rate"], weight_decay=settings["weight_decay"])
    for _ in range(int(settings["steps"])):
        error = (a / settings["temperature"]).softmax(0) @ w - torch.eye(count, dtype=torch.double)
        loss = (error * (gram @ error)).sum() / count**2
        adam.zero_grad()
        loss.backward()
        adam.step()
    return (a / settings["temperature"]).softmax(0).detach(), w.detach()


def principal(vectors: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """The same of principal components, by a singular value decomposition of the centred vectors [T,P]."""
    entries = torch.linalg.svd(vectors - vectors.mean(0), full_matrices=False)[0][:, :m]
    size = entries.abs()
    first = (size >= size.amax(0) / 2).byte().argmax(0, keepdim=True)
    entries = entries * entries.gather(0, first).sign()
    return entries - entries.mean(0), entries.T


def checks(oracle: Oracle) -> Iterator[Check]:
    if not names(oracle, GROUP):
        return
    settings = oracle.inputs.config["bases"]["low_rank"]
    tasks = range(len(oracle.tasks))

    @cache
    def vectors(regime: str) -> Tensor:
        return torch.stack([flat(oracle.tau(regime, t)) for t in tasks])

    @cache
    def decomposition(regime: str, q: int, row: int) -> tuple[Tensor, Tensor, Tensor]:
        method, m = settings["methods"][q], int(oracle.results[f"{GROUP}/{regime}/bases"][row])
        v = vectors(regime)
        if method == "pca":
            return *principal(v, m), torch.full((len(v), len(v)), 1 / len(v), dtype=torch.double)
        seed = draws.seed_for(oracle.inputs.seed(), f"autoencoder/{m}")
        return *autoencoder(v @ v.T, m, settings, seed), torch.zeros((len(v), len(v)), dtype=torch.double)

    def error(place: Place) -> Reading:
        b, w, rest = decomposition(*place)
        v = vectors(place[0])
        lost = (v - (b @ w + rest).T @ v).square().sum() / v.square().sum()
        return relative(stored(oracle, GROUP, "error", place), float(lost), 1e-3, 1e-6)

    def entry(name: str, part: int) -> Check:
        def measure(place: Place) -> Reading:
            regime, q, row, *index = place
            again = decomposition(regime, q, row)[part][tuple(index)]
            return relative(stored(oracle, GROUP, name, place), float(again), 1e-3, 1e-3)

        known = [
            place for place in places(oracle, GROUP, name) if np.isfinite(stored(oracle, GROUP, name, place))
        ]
        return Check(GROUP, name, known, measure)

    def accuracy(place: Place) -> Reading:
        regime, q, row, which, t = place
        b, w, rest = decomposition(regime, q, row)
        factors = (b if which == 0 else b @ w + rest).sum(1)
        step = {
            key: sum(float(factors[s]) * oracle.tau(regime, s)[key] for s in tasks) + torch.zeros_like(v)
            for key, v in oracle.theta0.items()
        }
        alpha = float(oracle.results[f"{GROUP}/{regime}/coefficient"][q, row, which])
        right = right_along(oracle, regime, step, alpha, t, GROUP, "test")
        return share(stored(oracle, GROUP, "accuracy", place), float(right.mean()), len(right))

    def coefficient(place: Place) -> Reading:
        node, single = oracle.results[f"{GROUP}/{place[0]}"], oracle.results[f"single_task/{place[0]}"]
        best = chosen_row(node["validation_accuracy"][tuple(place[1:])], single["validation_accuracy"][()])
        return exact(node["coefficient"][tuple(place[1:])], node["alpha"][best])

    def forgotten(method: str, split: str, on_control: bool) -> Right:
        """θ0 − ατ̂, τ̂ made again of the bases."""
        group = f"{GROUP}_negation/{method}"
        kind, _, m = method.rpartition("-")

        def right(place: Place) -> Array:
            regime, t, a = place
            bases = oracle.results[f"{GROUP}/{regime}/bases"][()].tolist()
            b, w, rest = decomposition(regime, settings["methods"].index(kind), bases.index(int(m)))
            factors = (b @ w + rest)[:, t]
            step = {
                key: sum(float(factors[s]) * oracle.tau(regime, s)[key] for s in tasks) + torch.zeros_like(v)
                for key, v in oracle.theta0.items()
            }
            node, where = oracle.results[f"{group}/{regime}"], len(tasks) if on_control else t
            index, alpha = f"{node.name}/{rows_of(split, on_control)}", -float(node["alpha"][a])
            return right_at(oracle, regime, step, alpha, tasks, index, where, split)

        return right

    for method in names(oracle, f"{GROUP}_negation"):
        group = f"{GROUP}_negation/{method}"
        for split in SPLITS:
            yield from accuracies(oracle, group, f"{split}_target", forgotten(method, split, False), SLOW)
            yield from accuracies(oracle, group, f"{split}_control", forgotten(method, split, True), SLOW)
        yield from choice(oracle, group)
        yield from at_chosen_alpha(oracle, group)

    yield Check(GROUP, "error", places(oracle, GROUP, "error"), error)
    yield entry("encoder", 0)
    yield entry("decoder", 1)
    yield Check(GROUP, "accuracy", places(oracle, GROUP, "accuracy"), accuracy, SLOW)
    yield Check(GROUP, "coefficient", places(oracle, GROUP, "coefficient"), coefficient)
