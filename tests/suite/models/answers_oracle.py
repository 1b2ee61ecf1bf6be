# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Whole answers of T5 and of decoders against transformers and torch.func, in double precision: the loss of the right
one's tokens, scores of labels' whole sequences, of which some begin alike, each quantity of these, and texts."""

from typing import Any, Protocol

import torch
from oracle import Parameters, flat, relative
from torch import Tensor
from torch.func import grad, jacrev, jvp
from torch.nn.functional import cross_entropy, log_softmax

# Answers of one token and of several, two that begin alike, one that goes on where another ends.
SEQUENCES = [[17, 1], [4, 9, 1], [4, 9, 30, 1], [4, 1]]
LABELS = torch.tensor([0, 1, 2, 3, 2])
NO_TOKEN = -100


class Answering(Protocol):
    """A model in a folder, a batch of prompts, and transformers' logits of answers to them."""

    ids: Tensor
    theta: Parameters
    config: Any

    def probe(self, **more: Tensor) -> Parameters: ...

    def answered(self, p: Parameters, wanted: Tensor, rows: slice = slice(None)) -> Tensor:
        """[rows, tokens, vocabulary]: the logits at each token of what is `wanted`, behind those before it."""


def packed(rows: list[list[int]], behind: int) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [behind] * (longest - len(row)) for row in rows])


def targets(labels: Tensor) -> Tensor:
    """As transformers' `labels`, NO_TOKEN behind each end."""
    return packed([SEQUENCES[label] for label in labels], NO_TOKEN)


def loss_of(world: Answering, p: Parameters, wanted: Tensor) -> Tensor:
    """The mean over tokens, as transformers' models have it."""
    return cross_entropy(world.answered(p, wanted).flatten(0, 1), wanted.flatten(), ignore_index=NO_TOKEN)


def scores(world: Answering, p: Parameters, rows: slice = slice(None)) -> Tensor:
    """[n, classes]: of one label at a time, its tokens' log-probabilities added up."""
    found = []
    for sequence in SEQUENCES:
        wanted = torch.tensor([sequence]).expand(len(world.ids[rows]), -1)
        log_p = log_softmax(world.answered(p, wanted, rows), 2)
        found.append(sum(log_p[:, i, token] for i, token in enumerate(sequence)))
    return torch.stack(found, 1)


def given() -> Parameters:
    return {"sequences": packed(SEQUENCES, 0), "sequence_lengths": torch.tensor([len(one) for one in SEQUENCES]),
            "labels": LABELS, "scale": torch.ones(1, dtype=torch.double)}


def assert_sequences_agree(world: Answering) -> Parameters:
    """Scores and the loss of the right one, and what is derived of them; returns what the program found."""
    theta = world.theta
    tau = {k: 0.05 * torch.randn_like(v) for k, v in theta.items()}
    out = world.probe(**given(), **{f"tau.{k}": v for k, v in tau.items()})
    value, along = jvp(lambda p: scores(world, p), (theta,), (tau,))
    assert relative(out["logits"], value) < 1e-12
    assert relative(out["jvp_logits"], along) < 1e-10
    assert out["correct"].tolist() == (value.argmax(1) == LABELS).long().tolist()
    assert_derivatives_agree(world, out, tau, targets(LABELS))

    def jacobian(i: int) -> Tensor:
        found = jacrev(lambda p: scores(world, p, slice(i, i + 1))[0])(theta)
        return torch.cat([v.flatten(1) for v in found.values()], 1)

    rows = torch.stack([jacobian(i) for i in range(len(world.ids))])
    assert relative(out["per_sample_norm"], rows.sum(1).norm(dim=1)) < 1e-10
    for c in range(2):
        gram = rows[:, c] @ rows[:, c].T
        assert relative(out["gram"][c], gram) < 1e-10
        assert relative(out["gram_factors"][c], gram[1:]) < 1e-10
    return out


def assert_derivatives_agree(world: Answering, out: Parameters, tau: Parameters, wanted: Tensor) -> None:
    """The loss, ∇L and Hτ."""
    theta = world.theta
    gradient = grad(lambda p: loss_of(world, p, wanted))
    loss = float(loss_of(world, theta, wanted))
    assert abs(float(out["loss"]) - loss) < 1e-6 * loss
    assert relative(flat(out, theta, "gradient."), flat(gradient(theta), theta)) < 1e-10
    assert relative(flat(out, theta, "hvp."), flat(jvp(gradient, (theta,), (tau,))[1], theta)) < 1e-10


def assert_frozen_rows_read_the_same(world: Answering, rows: Tensor) -> None:
    tau = {f"tau.{k}": torch.zeros_like(v) for k, v in world.theta.items()}
    out = world.probe(**given(), rows=rows, **tau)
    assert relative(out["logits"], scores(world, world.theta)) < 1e-12


def assert_texts_agree(world: Answering, said: Tensor) -> None:
    """Logits by teacher forcing, loss and gradients; and what is right is what greedy decoding, which `said` these four
    tokens, gives exactly then."""
    tau = {k: 0.05 * torch.randn_like(v) for k, v in world.theta.items()}
    wanted = said.clone()
    wanted[1, 2] = (wanted[1, 2] + 1) % world.config.vocab_size  # another answer
    wanted[2, 3] = NO_TOKEN  # a shorter one
    out = world.probe(labels=wanted, scale=torch.ones(1, dtype=torch.double),
                      **{f"tau.{k}": v for k, v in tau.items()})
    z, along = jvp(lambda p: world.answered(p, wanted), (world.theta,), (tau,))
    assert relative(out["logits"], z.flatten(1)) < 1e-12
    assert relative(out["jvp"], along.flatten(1)) < 1e-10
    assert out["correct"].tolist() == [1, 0, 1, 1, 1]
    assert_derivatives_agree(world, out, tau, wanted)
