# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Classifiers of a closed vocabulary again: trained from zeros by torch.optim.AdamW on θ0's features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.checks import Check, Place, Reading, names, places, relative, stored
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

    every = places(oracle, GROUP, "loss")
    yield Check(GROUP, "loss", every, loss, SLOW)
    if controls := places(oracle, GROUP, "control_loss"):
        yield Check(GROUP, "control_loss", controls, control_loss, SLOW)
    heads: list[Place] = [(every[0][0], t) for t in range(len(oracle.heads))]
    yield Check(GROUP, "weights and biases", heads, distance, SLOW)


def training(oracle: Oracle, t: int) -> tuple[list[float], Tensor]:
    """The loss of every step; then weights and biases, end to end."""
    told = oracle.inputs.config[GROUP]
    name = oracle.tasks[t] if t < len(oracle.tasks) else oracle.control
    count, steps, size = len(oracle.files[t]["train/labels"]), int(told["steps"]), int(told["batch"])
    x, y = oracle.sample("train", t, list(range(count)))
    with torch.no_grad():
        z = torch.cat([oracle.encode(oracle.theta0, part) for part in x.split(PART)])
    weight = torch.zeros_like(oracle.heads[t].weight, requires_grad=True)
    bias = torch.zeros_like(oracle.heads[t].bias, requires_grad=True)
    optimiser = torch.optim.AdamW([weight, bias], lr=0.0, weight_decay=told["weight_decay"])
    rows = torch.tensor(draws.batches(oracle.inputs.seed(), f"head/{name}", count, steps * size))
    losses = []
    for step, batch in enumerate(rows.view(steps, size)):
        rate = told["learning_rate"] * schedule(step, told["warmup_steps"], steps)
        optimiser.param_groups[0]["lr"] = rate
        optimiser.zero_grad()
        loss = cross_entropy(z[batch] @ weight.T + bias, y[batch])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses, torch.cat([weight.detach().flatten(), bias.detach()])


def schedule(step: int, warmup: int, steps: int) -> float:
    """Linear, then half a cosine to 0."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
