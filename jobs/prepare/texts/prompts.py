# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Prompts for masked language models, T5 and decoders: a template with columns and, for the first, a mask; tokens that
keep it; label words."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errors import InputError, shown

MASK = "mask"
BRACKET = "a bracket lacks its twin; expected [ and ] around optional parts"


@dataclass(frozen=True)
class Piece:
    """A literal, or what stands in a column."""

    text: str
    column: bool = False
    group: int = 0  # of an optional part, from 1 on


@dataclass(frozen=True)
class Prompt:
    """`{COLUMN}` stands for what a column holds, `{mask}` for the mask. What stands in `[ ]` is left out where its
    column is missing."""

    template: str
    pieces: tuple[Piece, ...]
    gap: str = " "  # between the prompt and a decoder's answer
    special: bool = True  # whether the tokenizer adds its special tokens, which a chat template writes itself
    chat: str = ""  # what the chat template has around {prompt}

    @property
    def columns(self) -> list[str]:
        """Each once, in the order of the template."""
        columns = [piece.text for piece in self.pieces if piece.column and piece.text != MASK]
        return list(dict.fromkeys(columns))

    @property
    def optional(self) -> set[str]:
        return {piece.text for piece in self.pieces if piece.column and piece.group}

    def fill(self, values: Mapping[str, str], mask: str) -> tuple[str, list[tuple[int, int]]]:
        """The text, and begin and end of each column's part of it. An optional column without words takes its part
        with it."""
        absent = {p.group for p in self.pieces if p.column and p.group and not values.get(p.text)}
        text, spans = "", []
        for piece in self.pieces:
            if piece.group in absent:
                continue
            if not piece.column:
                text += piece.text
                continue
            part = mask if piece.text == MASK else values[piece.text]
            if piece.text != MASK:
                spans.append((len(text), len(text) + len(part)))
            text += part
        return text, spans


def parse(template: str, where: str, mask: bool = True) -> Prompt:
    """Raises InputError for a template without its mask, with two, with one where none is wanted, or with a bracket
    that lacks its twin."""
    pieces: list[Piece] = []
    group, inside = 0, False
    for part in re.split(r"(\{[^{}]*\}|[\[\]])", template):
        if part in ("[", "]"):
            if inside == (part == "["):
                raise InputError(f'{where} "{template}": {BRACKET}')
            group, inside = group + (part == "["), part == "["
        elif part.startswith("{") and part.endswith("}") and len(part) > 1:
            if not part[1:-1].strip():
                raise InputError(f'{where} "{template}": {{}} names no column; expected {{COLUMN}} or {{mask}}')
            pieces.append(Piece(part[1:-1].strip(), True, group * inside))
        elif "{" in part or "}" in part:
            raise InputError(f'{where} "{template}": a brace lacks its twin; expected {{COLUMN}} and {{mask}}')
        elif part:
            pieces.append(Piece(part, False, group * inside))
    if inside:
        raise InputError(f'{where} "{template}": {BRACKET}')
    prompt = Prompt(template, tuple(pieces))
    masks = [piece for piece in pieces if piece.column and piece.text == MASK]
    if not mask and masks:
        raise InputError(f'{where} "{template}": has a {{mask}}; expected none, as the model answers behind the prompt')
    if mask and (len(masks) != 1 or masks[0].group):
        raise InputError(f'{where} "{template}": {len(masks)} masks; expected one {{mask}}, outside of brackets')
    if not set(prompt.columns) - prompt.optional:
        raise InputError(f'{where} "{template}": no column; expected {{text}}, say')
    return prompt


def check_end(prompt: Prompt, text: str) -> None:
    """Refuses a decoder's prompt that ends in white space: an answer brings its own, and both together are other
    tokens. A chat template knows what it ends with."""
    if not prompt.chat and text != text.rstrip():
        raise InputError(
            f'the prompt "{shown(prompt.template)}": ends in white space; expected a word or a sign at its end, for '
            "an answer brings the space before it"
        )


def of_parts(prompt: Prompt, parts: Sequence[str]) -> dict[str, str]:
    return dict(zip(prompt.columns, parts, strict=True))


@dataclass
class Encoded:
    """One prompt's tokens, cut to fit."""

    ids: list[int]
    mask: int | None
    cut: bool


def fit(
    encoding: Any, spans: list[tuple[int, int]], mask_token: int | None, most: int, where: str, *, keep_end: bool = True
) -> Encoded:
    """The mask and the template's own words stay; texts lose tokens at their ends, the longest first. Without
    `keep_end` special tokens behind all are left off."""
    masks = [place for place, token in enumerate(encoding.ids) if token == mask_token]
    if mask_token is not None and len(masks) != 1:
        raise InputError(f"{where}: the prompt has {len(masks)} masks; expected one, and texts without the mask's name")
    special = np.array(encoding.special_tokens_mask, bool)
    begins = np.array([begin for begin, _ in encoding.offsets])
    ends = np.array([end for _, end in encoding.offsets])
    plain = ~special & (ends > begins)
    parts = [np.flatnonzero(plain & (ends > begin) & (ends <= end)).tolist() for begin, end in spans]
    for (begin, end), part in zip(spans, parts, strict=True):
        if not part:  # its only token is the template's as well
            part.extend(np.flatnonzero(plain & (ends > begin) & (begins < end)).tolist()[:1])
    for (begin, end), part in zip(spans, parts, strict=True):
        if not part:
            raise InputError(f"{where}: the words at {begin} to {end} of the prompt have no token; expected words")
    behind = 0 if keep_end or special.all() else int(np.argmin(special[::-1]))
    dropped: set[int] = set(range(len(encoding.ids) - behind, len(encoding.ids)))
    excess = len(encoding.ids) - most
    while len(dropped) < excess:
        longest = max(parts, key=len)
        if len(longest) == 1:
            least = len(encoding.ids) - len(dropped)
            raise InputError(
                f"{where}: the prompt takes {least} tokens around its texts' first ones; expected at most "
                f"{most}: --tokens, or a shorter template"
            )
        dropped.add(longest.pop())
    kept = [place for place in range(len(encoding.ids)) if place not in dropped]
    mask = kept.index(masks[0]) if masks else None
    return Encoded([encoding.ids[place] for place in kept], mask, excess > behind)


@dataclass
class WordHead:
    """Tokens of label words, a class each."""

    words: list[str]
    tokens: NDArray[np.int64]


def word_head(
    model: Any, words: Sequence[str], where: str, how: str = "--new-tokens DIR", prompt: Prompt | None = None
) -> WordHead:
    """Raises InputError for a word that is not one token, and for two classes that share one. What a T5 or a decoder
    generates first is the first token of its answer, which may have others."""
    tokens = []
    for word in words:
        word_tokens = model.word_tokens(word, prompt)
        single = len(word_tokens) == 1 or (model.answers_behind and len(word_tokens) > 1)
        if not single or model.unknown in word_tokens:
            pieces = ", ".join(shown(str(model.tokenizer.id_to_token(piece))) for piece in word_tokens)
            raise InputError(
                f'{where}: the word "{shown(word)}" is {len(word_tokens)} tokens of {model.folder} ({pieces}); '
                f"expected one that it knows: another word{'' if model.answers_behind else f', or {how}'}"
            )
        tokens.append(word_tokens[0])
    for second, token in enumerate(tokens):
        if (first := tokens.index(token)) < second:
            alike = "begin with" if model.answers_behind else "are"
            raise InputError(
                f'{where}: the words "{shown(words[first])}" and "{shown(words[second])}" {alike} one token; '
                "expected a word for each class"
            )
    return WordHead(list(words), np.array(tokens, np.int64))
