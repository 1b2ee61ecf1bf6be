# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a T5 or a decoder answers, as whole sequences of tokens: those of each class, each row's own text, or each row's
own choices."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from errors import InputError, shown

SPACE = "\u2581"  # as sentencepiece writes it
CUT = ("token_accuracy",)  # metrics of texts of which a beginning will do
SEVERAL = "\n"  # between the answers of one row


def padded(rows: Sequence[Sequence[int]], most: int) -> NDArray[np.int32]:
    padded = np.zeros((len(rows), most), np.int32)
    for row, ids in enumerate(rows):
        padded[row, : len(ids)] = ids
    return padded


@dataclass
class SequenceHead:
    """Tokens of each class's answer: a T5's with the end that its tokenizer gives a text, a decoder's without any."""

    words: list[str]
    sequences: list[list[int]]
    by_letter: bool = False  # scores are divided by the letters of the answers, as acc_norm has it

    def write(self, file: h5py.File, class_names: Sequence[str]) -> None:
        longest = max(len(each) for each in self.sequences)
        file.create_dataset("head/tokens", data=padded(self.sequences, longest).astype(np.int64))
        file.create_dataset("head/lengths", data=np.array([len(each) for each in self.sequences], np.int64))
        if self.by_letter:
            file.create_dataset("head/letters", data=np.array([len(word) for word in self.words], np.int64))
        file["head"].attrs["kind"] = "sequences"
        file["head"].attrs["words"] = list(self.words)
        file.create_dataset("class_names", data=class_names, dtype=h5py.string_dtype())


def sequence_head(
    model: Any, words: Sequence[str], where: str, prompt: Any, *, by_letter: bool = False
) -> SequenceHead:
    """Raises InputError for a word that the model does not know, and for two classes with one answer."""
    sequences = [model.class_tokens(word, prompt) for word in words]
    for word, tokens in zip(words, sequences, strict=True):
        if model.unknown in tokens or tokens == model.class_tokens("", prompt):
            raise InputError(
                f'{where}: the word "{shown(word)}" has tokens that {model.folder} does not know; expected another'
            )
    for second, tokens in enumerate(sequences):
        if (first := sequences.index(tokens)) < second:
            raise InputError(
                f'{where}: "{shown(words[first])}" and "{shown(words[second])}" are the same tokens; expected an '
                "answer for each class"
            )
    if model.is_decoder and not by_letter:  # whose answers have no end
        for short, long in permutations(range(len(words)), 2):
            if sequences[long][: len(sequences[short])] == sequences[short]:
                raise InputError(
                    f'{where}: "{shown(words[long])}" begins as all of "{shown(words[short])}", and is never likelier; '
                    "expected answers of which none is another's beginning, or --score acc_norm"
                )
    return SequenceHead(list(words), sequences, by_letter)


@dataclass
class TextHead:
    """Answers are texts; what tells how good they are, and what each token adds to one."""

    metric: str
    pieces: list[bytes]  # UTF-8, of which one may be a part of a letter

    def write(self, file: h5py.File) -> None:
        file.create_dataset("head/pieces", data=self.pieces, dtype=h5py.string_dtype())
        file["head"].attrs["kind"] = "text"
        file["head"].attrs["metric"] = self.metric


def letters_of_bytes() -> dict[str, int]:
    """How a tokenizer of bytes writes each of them (GPT-2's table): those that can be seen as they are, the others as
    the letters from 256 on."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("\u00a1"), ord("\u00ac") + 1), *range(ord("\u00ae"), 256)]
    others = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + at): byte for at, byte in enumerate(others)}


def text_head(model: Any, metric: str) -> TextHead:
    """Pieces as sentencepiece has them, a space for its mark, or as bytes; of special tokens nothing is seen. A
    tokenizer without such marks has words, each with a space before it."""
    size = model.tokenizer.get_vocab_size()
    words = [model.tokenizer.id_to_token(token) or "" for token in range(size)]
    added = model.tokenizer.get_added_tokens_decoder()
    if '"ByteLevel"' in model.tokenizer.to_str().split('"model"')[0]:
        known = letters_of_bytes()
        of_bytes = [bytes(known[letter] for letter in word if letter in known) for word in words]
        plain = [added[token].content.encode() if token in added else of_bytes[token] for token in range(size)]
        hidden = [token in added and added[token].special for token in range(size)]
    else:
        special = {token for token in range(size) if not model.tokenizer.decode([token]).strip()}
        marked = any(SPACE in word for word in words)
        seen = [word.replace(SPACE, " ") if marked else f" {word}" for word in words]
        fallback = [re.fullmatch("<0x([0-9A-F]{2})>", word) for word in words]  # bytes of what no piece has
        plain = [
            bytes.fromhex(byte[1]) if byte else piece.encode() for byte, piece in zip(fallback, seen, strict=True)
        ]
        hidden = [token in special and SPACE not in words[token] and not fallback[token] for token in range(size)]
    return TextHead(
        metric, [b"" if hide or b"\0" in piece else piece for hide, piece in zip(hidden, plain, strict=True)]
    )


@dataclass
class RowChoices:
    """A row's choices [n, choices, tokens]; `lengths` 0 where it has fewer."""

    tokens: NDArray[np.int32]
    lengths: NDArray[np.int32]
    given: NDArray[np.int32]  # how many of the first tokens are not scored
    letters: NDArray[np.int32] | None

    def write(self, group: h5py.Group) -> None:
        group.create_dataset("choices", data=self.tokens)
        group.create_dataset("choice_lengths", data=self.lengths)
        if self.given.any():
            group.create_dataset("choice_given", data=self.given)
        if self.letters is not None:
            group.create_dataset("choice_letters", data=self.letters)


class ChoiceHead:
    """Scores of each row's own choices."""

    def write(self, file: h5py.File, class_names: Sequence[str]) -> None:
        file.create_group("head").attrs["kind"] = "choices"
        file.create_dataset("class_names", data=class_names, dtype=h5py.string_dtype())


@dataclass
class Targets:
    """A row a text: its tokens, padded with zeros behind its length, and all right answers, SEVERAL between them."""

    ids: NDArray[np.int32]
    lengths: NDArray[np.int32]
    references: list[str]
    cut: int

    def write(self, group: h5py.Group) -> None:
        group.create_dataset("targets", data=self.ids)
        group.create_dataset("target_lengths", data=self.lengths)
        group.create_dataset("references", data=self.references, dtype=h5py.string_dtype())


def targets(
    model: Any, answers: Sequence[str], most: int, *, prompt: Any, metric: str, where: str
) -> Targets:
    """Makes the targets of rows of answers; a row's first answer is the one to be learnt. An answer of more than `most`
    tokens is refused, unless its beginning will do, which keeps the last token. Raises InputError."""
    rows, cut = [], 0
    for row, several in enumerate(answers):
        tokens = model.answer_tokens(several.split(SEVERAL)[0], prompt)
        if len(tokens) > most:
            if metric not in CUT:
                raise InputError(
                    f"{where}: the answer of text {row + 1} has {len(tokens)} tokens; expected at most {most}: "
                    "--answer-tokens"
                )
            tokens, cut = [*tokens[: most - 1], tokens[-1]], cut + 1
        rows.append(tokens)
    lengths = np.array([len(each) for each in rows], np.int32)
    return Targets(padded(rows, most), lengths, list(answers), cut)
