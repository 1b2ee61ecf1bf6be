# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Whole answers of T5 and of decoders against transformers and torch.func, in double precision: the loss of the right
one's tokens, scores of labels' whole sequences, of which some begin alike, each quantity of these, texts, and choices
of each row."""

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
    columns = []
    for sequence in SEQUENCES:
        wanted = torch.tensor([sequence]).expand(len(world.ids[rows]), -1)
        log_p = log_softmax(world.answered(p, wanted, rows), 2)
        columns.append(sum(log_p[:, i, token] for i, token in enumerate(sequence)))
    return torch.stack(columns, 1)


def given() -> Parameters:
    return {"sequences": packed(SEQUENCES, 0),
            "sequence_lengths": torch.tensor([len(sequence) for sequence in SEQUENCES]),
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
        derivatives = jacrev(lambda p: scores(world, p, slice(i, i + 1))[0])(theta)
        return torch.cat([v.flatten(1) for v in derivatives.values()], 1)

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


# Of each row: choices of several lengths, a row with fewer, and of one choice tokens that are given, not scored.
CHOICES = [[[4, 9, 30], [17], [4, 8]], [[5], [6, 7]], [[9, 9, 9, 9], [3, 2], [30]], [[8], [8, 8], [8, 8, 8]],
           [[21, 22, 23], [24, 22, 23], [25, 26, 22, 23]]]
GIVEN = [[0, 0, 0], [0, 0], [0, 0, 0], [0, 0, 0], [1, 1, 2]]
RIGHT = [0, 1, 2, 0, 1]
LETTERS = [[9, 3, 5], [2, 7], [1, 8, 4], [3, 3, 30], [6, 6, 6]]


def choice_scores(world: Answering, p: Parameters, row: int) -> Tensor:
    """[choices of the row], a choice at a time."""
    scores = []
    for choice, given in zip(CHOICES[row], GIVEN[row], strict=True):
        log_p = log_softmax(world.answered(p, torch.tensor([choice]), slice(row, row + 1)), 2)[0]
        scores.append(sum(log_p[i, token] for i, token in enumerate(choice) if i >= given))
    return torch.stack(scores)


def assert_choices_agree(world: Answering, rows: Tensor | None = None) -> None:
    """Each row's choices by log p of the tokens that are scored, what is compared, and what is derived of the right
    one's; `rows` of the vocabulary are frozen."""
    count, n = max(map(len, CHOICES)), len(CHOICES)
    longest = max(len(choice) for row in CHOICES for choice in row)
    tokens, lengths = torch.zeros(n, count, longest, dtype=torch.long), torch.zeros(n, count, dtype=torch.long)
    labels = torch.zeros(n, 2 + count, dtype=torch.long)
    for i, row in enumerate(CHOICES):
        tokens[i, : len(row)] = packed([*row, [0] * longest], 0)[: len(row)]
        lengths[i, : len(row)] = torch.tensor([len(choice) for choice in row])
        labels[i, : 2 + len(row)] = torch.tensor([RIGHT[i], len(row[RIGHT[i]]) - GIVEN[i][RIGHT[i]], *LETTERS[i]])
    theta, frozen = world.theta, {} if rows is None else {"rows": rows}
    tau = {k: 0.05 * torch.randn_like(v) for k, v in theta.items()}
    out = world.probe(choices=tokens, choice_lengths=lengths, choice_given=packed(GIVEN, 0), labels=labels,
                      scale=torch.ones(1, dtype=torch.double), **{f"tau.{k}": v for k, v in tau.items()}, **frozen)
    there = lengths > 0
    value = torch.cat([choice_scores(world, theta, i) for i in range(n)])
    assert relative(out["logits"][there], value) < 1e-12
    assert (out["logits"][~there] < -1e8).all() and not out["jvp"][~there].any()
    best = [int((choice_scores(world, theta, i) / torch.tensor(LETTERS[i])).argmax()) for i in range(n)]
    assert out["correct"].tolist() == [int(chosen == right) for chosen, right in zip(best, RIGHT, strict=True)]
    if rows is not None:
        return

    def every(p: Parameters) -> Tensor:
        return torch.cat([choice_scores(world, p, i) for i in range(n)])

    def loss(p: Parameters) -> Tensor:
        return -sum(choice_scores(world, p, i)[RIGHT[i]] for i in range(n)) / int(labels[:, 1].sum())

    assert relative(out["jvp"][there], jvp(every, (theta,), (tau,))[1]) < 1e-10
    gradient = grad(loss)
    assert abs(float(out["loss"]) - float(loss(theta))) < 1e-6 * float(loss(theta))
    assert relative(flat(out, theta, "gradient."), flat(gradient(theta), theta)) < 1e-10
    assert relative(flat(out, theta, "hvp."), flat(jvp(gradient, (theta,), (tau,))[1], theta)) < 1e-10

    def jacobian(i: int) -> Tensor:
        slopes = jacrev(lambda p: choice_scores(world, p, i))(theta)
        return torch.cat([v.flatten(1) for v in slopes.values()], 1)

    each = [jacobian(i) for i in range(n)]
    assert relative(out["per_sample_norm"], torch.stack([rows.sum(0).norm() for rows in each])) < 1e-10
    for c in range(2):
        first = torch.stack([rows[c] for rows in each])
        assert relative(out["gram"][c], first @ first.T) < 1e-10
