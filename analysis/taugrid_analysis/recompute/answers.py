# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a T5 or a decoder answers, read by teacher forcing.

Classes by sequences of tokens, texts, or choices of each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.recompute import decoder, t5

Tokens = tuple[int, ...]
NO_TOKEN = -100
KINDS = ("sequences", "text", "choices")
NO_CHOICE = -1e9  # the score of one that is not there
RIGHT, ITEMS, PARTS = 0, 1, 2  # columns of the labels of choices: choice_labels()


def sequences_of(node: h5py.Group) -> tuple[Tokens, ...]:
    """The tokens of each class's answer."""
    rows = zip(node["tokens"][()].tolist(), node["lengths"][()].tolist(), strict=True)
    return tuple(tuple(tokens[:length]) for tokens, length in rows)


def beginnings(sequences: Sequence[Tokens]) -> dict[Tokens, int]:
    """What stands before each token of the sequences, each once, in the order in which they come."""
    places: dict[Tokens, int] = {}
    for sequence in sequences:
        for length in range(len(sequence)):
            places.setdefault(sequence[:length], len(places))
    return places


def targets(group: h5py.Group, rows: object) -> Array:
    """Texts as transformers' labels, [n, tokens]."""
    ids, lengths = group["targets"][rows].astype(np.int64), group["target_lengths"][rows]
    return np.where(np.arange(ids.shape[1]) < lengths[:, None], ids, NO_TOKEN)


def choice_labels(group: h5py.Group, rows: object) -> Array:
    """[n, 2 + choices]: which is right, how many of its tokens are scored, and each one's divisor.

    By that scores are divided where they are compared; it is 0 where there is no choice.
    """
    right, lengths = group["labels"][rows], group["choice_lengths"][rows]
    scored = lengths - (group["choice_given"][rows] if "choice_given" in group else 0)
    parts = group["choice_letters"][rows] if "choice_letters" in group else np.ones_like(lengths)
    items = scored[np.arange(len(right)), right]
    return np.column_stack([right, items, np.where(lengths > 0, parts, 0)]).astype(np.int64)


def choices(group: h5py.Group, rows: object, width: int) -> Tensor:
    """[n, width, 2 · choices]: of each its tokens plus 1, 0 behind the end, then 1 where one is scored."""
    tokens, lengths = group["choices"][rows].astype(np.int64), group["choice_lengths"][rows][:, :, None]
    given = group["choice_given"][rows][:, :, None] if "choice_given" in group else 0
    place = np.arange(tokens.shape[2])
    there = place < lengths
    parts = np.stack([(tokens + 1) * there, there & (place >= given)], 3)  # [n, choices, tokens, 2]
    laid = torch.tensor(parts).permute(0, 2, 1, 3).flatten(2)
    return torch.nn.functional.pad(laid, (0, 0, 0, width - laid.shape[1]))


def choice_scores(
    model: torch.nn.Module,
    p: dict[str, Tensor],
    x: Tensor,
    places: int,
    logits_of: Callable[[Tensor], Tensor],
) -> Tensor:
    """[n, choices]: the log-probabilities of each choice's scored tokens, added up, a choice at a time.

    `logits_of` gives the vocabulary's logits of the decoder's states.
    """
    by, of = module_of(model), []
    states_of = by.reader(model, p, x[:, :, 0], x[:, :, 2])
    for said, scored in x[:, :places, 5:].unflatten(2, (-1, 2)).permute(2, 3, 0, 1):
        logits = logits_of(states_of(shifted(said - 1, by.start(model))))
        log_p = logits.log_softmax(2).gather(2, (said - 1).clamp(min=0)[:, :, None])[:, :, 0]
        of.append(torch.where(scored.any(1), (log_p * scored).sum(1), NO_CHOICE))
    return torch.stack(of, 1)


def shifted(labels: Tensor, start: int) -> Tensor:
    """What the decoder is given to say these."""
    return torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1].clamp(min=0)], 1)


def module_of(model: torch.nn.Module) -> Any:
    """The module that knows how the model answers."""
    config: Any = model.config
    return decoder if config.model_type in decoder.TYPES else t5


def states(
    model: torch.nn.Module, p: dict[str, Tensor], x: Tensor, sequences: Sequence[Tokens], places: int
) -> Tensor:
    """[n, places, d]: the decoder's behind each beginning of the sequences, taken one at a time.

    Without sequences, behind those of the texts that the batch holds.
    """
    by = module_of(model)
    states_of, start = by.reader(model, p, x[:, :, 0], x[:, :, 2]), by.start(model)
    if not sequences:
        of_labels: Tensor = states_of(shifted(x[:, :places, 4] - 1, start))
        return of_labels
    by_beginning: dict[Tokens, Tensor] = {}
    for sequence in sequences:
        given = torch.tensor([[start, *sequence[:-1]]]).expand(len(x), -1)
        of = states_of(given)
        for length in range(len(sequence)):
            by_beginning.setdefault(sequence[:length], of[:, length])
    return torch.stack([by_beginning[beginning] for beginning in beginnings(sequences)], 1)


def scores(logits: Tensor, sequences: Sequence[Tokens]) -> Tensor:
    """[n, classes] of logits [n, beginnings, vocabulary]: log-probabilities of a label's tokens, added up."""
    log_p, place = logits.log_softmax(2), beginnings(sequences)
    of = [
        sum(
            (log_p[:, place[sequence[:i]], token] for i, token in enumerate(sequence)),
            log_p.new_zeros(len(log_p)),
        )
        for sequence in sequences
    ]
    return torch.stack(of, 1)


def loss_of(kind: str, sequences: Sequence[Tokens], logits: Tensor, y: Tensor, of: Tensor) -> Tensor:
    """These samples' part of T5ForConditionalGeneration's loss, the mean over tokens of the samples `of`."""
    if kind == "text":
        items = (of >= 0).sum()
        return (
            cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=NO_TOKEN, reduction="sum") / items
        )
    if kind == "choices":
        return -logits.gather(1, y[:, RIGHT : RIGHT + 1]).sum() / of[:, ITEMS].sum()
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    return -logits.gather(1, y[:, None]).sum() / lengths[of].sum()
