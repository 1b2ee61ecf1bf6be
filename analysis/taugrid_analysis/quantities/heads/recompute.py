# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Classifiers of a closed vocabulary again, by torch.optim.AdamW.

From zeros on θ0's features; or from a start at random together with a copy of θ0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from taugrid_analysis.recompute import draws, nets
from taugrid_analysis.recompute.checks import Check, Place, Reading, names, places, relative, share, stored
from taugrid_analysis.recompute.oracle import PART, Oracle

GROUP = "heads"
SLOW = 6  # of a quantity: each stands for the features of a training split and a whole training
TOLERANCE = 1e-3


def checks(oracle: Oracle) -> Iterator[Check]:
    if not names(oracle, GROUP):
        return

    @cache
    def trained(t: int) -> tuple[list[float], Tensor]:
        return training(oracle, t)

    def loss(place: Place) -> Reading:
        _, t, step = place
        return relative(stored(oracle, GROUP, "loss", place), trained(t)[0][step], TOLERANCE, TOLERANCE / 10)

    def control_loss(place: Place) -> Reading:
        again = trained(len(oracle.tasks))[0][place[1]]
        return relative(stored(oracle, GROUP, "control_loss", place), again, TOLERANCE, TOLERANCE / 10)

    def distance(place: Place) -> Reading:
        """How far the head that lies there is from the one that comes out."""
        head, again = oracle.heads[place[1]], trained(place[1])[1]
        ours = torch.cat([head.weight.flatten(), head.bias])
        return Reading(float((ours - again).norm() / again.norm()), 0.0, TOLERANCE)

    def drawn_accuracy(place: Place) -> Reading:
        x, y = oracle.points(f"single_task/{place[0]}/sample_index", place[1], "test")
        with torch.no_grad():
            z = torch.cat([oracle.encode(oracle.theta0, part) for part in x.split(PART)])
        weight, bias = started(oracle, place[1], drawn=True)
        right = (z @ weight.T + bias).argmax(1) == y
        return share(stored(oracle, GROUP, "drawn_accuracy", place), float(right.double().mean()), len(y))

    every = places(oracle, GROUP, "loss")
    yield Check(GROUP, "loss", every, loss, SLOW)
    if controls := places(oracle, GROUP, "control_loss"):
        yield Check(GROUP, "control_loss", controls, control_loss, SLOW)
    if drawn := places(oracle, GROUP, "drawn_accuracy"):
        yield Check(GROUP, "drawn_accuracy", drawn, drawn_accuracy)
    heads: list[Place] = [(every[0][0], t) for t in range(len(oracle.heads))]
    yield Check(GROUP, "weights and biases", heads, distance, SLOW)


def training(oracle: Oracle, t: int) -> tuple[list[float], Tensor]:
    """The loss of every step; then weights and biases, end to end."""
    settings = oracle.inputs.config[GROUP]
    name = oracle.tasks[t] if t < len(oracle.tasks) else oracle.control
    count, steps, size = len(oracle.files[t]["train/labels"]), int(settings["steps"]), int(settings["batch"])
    together = settings.get("body", "frozen") == "trained"
    weight, bias = started(oracle, t, together)
    x, y = oracle.sample("train", t, list(range(count)))
    trained = [weight, bias]
    if together:
        group = f"{GROUP}/{names(oracle, GROUP)[0]}"
        first = int(oracle.results[group].attrs.get("first_stage", 0))
        body = oracle.free_copy(group)
        trained += [p for p in body.values() if p.requires_grad]

        def features(rows: Tensor) -> Tensor:
            if oracle.stored_statistics:
                return nets.in_training(oracle.model, oracle.stored_statistics | body, x[rows], first)
            return oracle.encode(body, x[rows])
    else:
        with torch.no_grad():
            z = torch.cat([oracle.encode(oracle.theta0, part) for part in x.split(PART)])

        def features(rows: Tensor) -> Tensor:
            return z[rows]

    optimiser = torch.optim.AdamW(trained, lr=0.0, weight_decay=settings["weight_decay"])
    rows = torch.tensor(draws.batches(oracle.inputs.seed(), f"head/{name}", count, steps * size))
    losses = []
    for step, batch in enumerate(rows.view(steps, size)):
        rate = settings["learning_rate"] * schedule(step, settings["warmup_steps"], steps)
        optimiser.param_groups[0]["lr"] = rate
        optimiser.zero_grad()
        loss = cross_entropy(features(batch) @ weight.T + bias, y[batch])
        loss.backward()
        if together:
            torch.nn.utils.clip_grad_norm_(trained, settings.get("body_clip_norm", 1.0))
        optimiser.step()
        losses.append(loss.item())
    return losses, torch.cat([weight.detach().flatten(), bias.detach()])


def started(oracle: Oracle, t: int, drawn: bool) -> tuple[Tensor, Tensor]:
    """Weight and bias before training: zeros, or as PyTorch starts a linear map, by the run's seed."""
    parts = oracle.heads[t].weight, oracle.heads[t].bias
    if not drawn:
        return torch.zeros_like(parts[0], requires_grad=True), torch.zeros_like(parts[1], requires_grad=True)
    name = oracle.tasks[t] if t < len(oracle.tasks) else oracle.control
    seed = draws.seed_for(oracle.inputs.seed(), f"head/start/{name}")
    generator, bound = torch.Generator().manual_seed(seed), 1 / math.sqrt(parts[0].shape[1])
    weight, bias = (
        torch.empty(part.shape).uniform_(-bound, bound, generator=generator).to(part.dtype).requires_grad_()
        for part in parts
    )
    return weight, bias


def schedule(step: int, warmup: int, steps: int) -> float:
    """Linear, then half a cosine to 0."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
