# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Rows that have choices of their own, as lm-evaluation-harness' multiple choice has them: a context, of which each
choice is a continuation, or contexts of each choice with one continuation (WinoGrande's partial evaluation, Trinh and
Le, 2018). A choice's score is log p of its continuation: tokens are those of both together, and all behind those of the
context alone are scored. acc_norm divides by the letters of the choice."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from errors import InputError, checked_text, shown
from labels import WITHOUT_LABEL, means_none
from splits import SPLIT_NAMES, TEST, TRAIN, shuffled_rows
from texts.answers import ChoiceHead, RowChoices, padded
from texts.language_sources import Texts
from texts.model import TextModel, Tokens
from texts.pack import Choice, Class, PackedText, deal
from texts.prompts import Prompt, of_parts
from texts.read import SPLIT_FILES, TEXT_MOST, column_of, parts_of, rows_of, text_in

# Why rows are left out: of a decoder whose tokenizer puts nothing before a text no token is there before the gap.
WITHOUT_BEGINNING = "that begin with their gap"


@dataclass(frozen=True)
class ByRow:
    """Where a source's rows have their choices: columns, a column with a list of them, or the same texts in each row
    (`same`). `names`, a column with a list, says how the label calls each; else it is one of the task's classes."""

    prompt: Prompt
    choices: tuple[str, ...]
    same: bool = False
    names: str = ""
    written: str = ""  # one of WRITTEN


@dataclass
class Row:
    contexts: list[str]  # one of all choices, or one a choice
    continuations: list[str]  # likewise
    letters: list[int]
    right: int

    def pairs(self) -> list[tuple[str, str]]:
        count = len(self.letters)
        several = [each * count if len(each) == 1 else each for each in (self.contexts, self.continuations)]
        return [joined_at_a_word(*pair) for pair in zip(*several, strict=True)]


def joined_at_a_word(context: str, continuation: str) -> tuple[str, str]:
    """The spaces that a context ends with belong to what goes on from it."""
    stripped = context.rstrip()
    return stripped, context[len(stripped) :] + continuation


def without_brackets(text: str) -> str:
    """What HellaSwag's texts out of WikiHow are without their marks, "[header]" and the like."""
    return re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def plain(form: ByRow, parts: Mapping[str, str], choices: Sequence[str]) -> tuple[list[str], list[str]]:
    context, _ = form.prompt.fill(parts, "")
    return [context], [f" {choice}" for choice in choices]


def hellaswag(form: ByRow, parts: Mapping[str, str], choices: Sequence[str]) -> tuple[list[str], list[str]]:
    capital = {name: text.capitalize() if name == "ctx_b" else text for name, text in parts.items()}
    context, _ = form.prompt.fill(capital, "")
    return [without_brackets(context)], [f" {without_brackets(choice)}" for choice in choices]


def gap(form: ByRow, parts: Mapping[str, str], choices: Sequence[str]) -> tuple[list[str], list[str]]:
    """A choice stands in the gap, and what is scored is the rest of the sentence."""
    before, mark, behind = form.prompt.fill(parts, "")[0].partition("_")
    if not mark or not behind.strip():
        raise InputError("has no gap, written _, with words behind it")
    return [before + choice for choice in choices], [f" {behind.strip()}"]


WRITTEN: dict[str, Callable[[ByRow, Mapping[str, str], Sequence[str]], tuple[list[str], list[str]]]] = {
    "": plain,
    "hellaswag": hellaswag,
    "gap": gap,
}


def text_of(row: Mapping[str, Any], name: str, where: str, empty: tuple[Any, ...] = ()) -> str:
    """A column's words, with the spaces around them, as the harness' templates take them."""
    text = text_in(row, name, where, empty)
    held = column_of(row, name)
    return held if text and isinstance(held, str) else text


def texts_in(row: Mapping[str, Any], names: Sequence[str], where: str) -> list[str]:
    """What columns hold, or one column's list. Raises InputError where there are fewer than two, or one is empty."""
    held = column_of(row, names[0]) if len(names) == 1 else None
    if not isinstance(held, list):
        texts = [text_of(row, name, where) for name in names]
    elif not all(isinstance(each, str) and each.strip() and len(each) <= TEXT_MOST for each in held):
        raise InputError(f'{where}: column "{names[0]}" holds a choice that is empty or no text; expected words')
    else:
        texts = [checked_text(each, f'{where}: column "{names[0]}"', nul=True) for each in held]
    if len(texts) < 2:
        raise InputError(f'{where}: column "{names[0]}" has {len(texts)} choices; expected a list of two or more')
    return texts


def right_of(label: str, names: Sequence[Sequence[str]], count: int, where: str) -> int:
    """The place of the label among what each choice is called."""
    number = next((place for place, known in enumerate(names) if label in known), count)
    if number >= count:
        expected = ", ".join(known[-1] for known in names[:count])
        raise InputError(f"{where}: the label {shown(label)} is none of the row's {count} choices; expected {expected}")
    return number


def read_rows(
    path: Path, form: ByRow, label: str, classes: Sequence[Class], splits: Mapping[str, int] = SPLIT_FILES
) -> tuple[list[Row], Texts]:
    """Rows with choices, and texts that stand for them where they are dealt out. Raises InputError with its line."""
    rows: list[Row] = []
    parts_to_read, left_out = parts_of(path, splits)
    texts, fixed, called = Texts(left_out=left_out), [], [each.matches for each in classes]
    for split, part in parts_to_read:
        for number, row in rows_of(part, numbered=False):
            where = f"{part}:{number}"
            named = text_in(row, label, where, (None, ""))
            if means_none(named):
                texts.left_out[WITHOUT_LABEL] += 1
                continue
            choices = list(form.choices) if form.same else texts_in(row, form.choices, where)
            names = [[name] for name in texts_in(row, [form.names], where)] if form.names else called
            right = right_of(named, names, len(choices), where)
            # HellaSwag's second beginning is empty where its text is all of the context.
            may_lack = ("",) if form.written == "hellaswag" else ()
            parts = [text_of(row, name, where, may_lack) for name in form.prompt.columns]
            try:
                contexts, continuations = WRITTEN[form.written](form, of_parts(form.prompt, parts), choices)
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
            letters = [len(each) - 1 for each in continuations] * (len(choices) // len(continuations))
            if not all(context.strip() for context in contexts) or not all(count > 0 for count in letters):
                raise InputError(f"{where}: its context or a choice has no words; expected them")
            rows.append(Row(contexts, continuations, letters, right))
            context = "\n".join(parts)
            texts.add(context, str(right), f"{context}\n{choices}", "\n".join(choices))
            fixed.append(split)
    if not rows:
        raise InputError(f"{path}: no rows with a label; expected them")
    if set(fixed) != {-1}:
        texts.fixed = np.array(fixed, np.int64)
    return rows, texts


@dataclass
class Line:
    """A row's tokens: those that all choices begin with, and of each choice the others."""

    prompt: list[int]
    choices: list[list[int]]
    given: list[int]


def line_of_decoder(model: TextModel, row: Row) -> Line:
    pairs = row.pairs()
    texts = [context for context, _ in pairs] + [context + continuation for context, continuation in pairs]
    encodings = model.encoded(texts)
    ids = [model.without_end(encoding) for encoding in encodings]
    before, whole = ids[: len(pairs)], ids[len(pairs) :]
    # The context's own tokens stay, also where the last of them is another once the choice stands behind it.
    lines = [context + both[len(context) :] for context, both in zip(before, whole, strict=True)]
    most = min(len(context) for context in before)
    shared = next((at for at in range(most) if len({line[at] for line in lines}) > 1), most)
    return Line(lines[0][:shared], [line[shared:] for line in lines], [len(context) - shared for context in before])


def line_of_t5(model: TextModel, row: Row) -> Line:
    """An encoder reads the context, and a choice has the end that its tokenizer gives a text."""
    prompt, *choices = model.encoded([row.contexts[0], *(each.strip() for each in row.continuations)])
    return Line(list(prompt.ids), [list(each.ids) for each in choices], [0] * len(choices))


def lines_of(model: TextModel, rows: Sequence[Row], choice: Choice, where: str) -> list[Line]:
    """Raises InputError for what is longer than --tokens and --answer-tokens allow: nothing is cut."""
    model.tokenizer.no_truncation()
    lines = [(line_of_decoder if model.is_decoder else line_of_t5)(model, row) for row in rows]
    for row, line in zip(rows, lines, strict=True):
        which = f'{where}: the row "{shown(row.contexts[0][:40])}"'
        longest = max(len(each) for each in line.choices)
        if len(line.prompt) > choice.tokens:
            raise InputError(
                f"{which} has a context of {len(line.prompt)} tokens; expected at most {choice.tokens}: --tokens"
            )
        if longest > choice.answer_tokens:
            raise InputError(
                f"{which} has a choice of {longest} tokens; expected at most {choice.answer_tokens}: --answer-tokens"
            )
        if any(len(each) <= given for each, given in zip(line.choices, line.given, strict=True)):
            raise InputError(f"{which} has a choice without a token of its own; expected words")
        if model.is_decoder and len(line.prompt) + longest - 1 > model.tokens_most:
            raise InputError(
                f"{which} takes {len(line.prompt) + longest - 1} tokens; {model.folder} takes {model.tokens_most}"
            )
    return lines


def encoded(
    model: TextModel, rows: Sequence[Row], choice: Choice, count: int, where: str
) -> tuple[Tokens, RowChoices]:
    """Contexts and choices of rows of which each has `count` choices at most."""
    lines = lines_of(model, rows, choice, where)
    ids = padded([line.prompt for line in lines], choice.tokens)
    longest = max(len(each) for line in lines for each in line.choices)
    tokens = np.zeros((len(rows), count, longest), np.int32)
    lengths, given, letters = (np.zeros((len(rows), count), np.int32) for _ in range(3))
    for at, (row, line) in enumerate(zip(rows, lines, strict=True)):
        some = slice(len(line.choices))
        tokens[at, some] = padded(line.choices, longest)
        lengths[at, some], given[at, some] = [len(each) for each in line.choices], line.given
        letters[at, some] = row.letters
    for each in (ids, tokens):
        model.require_rows(each)
    prompts = Tokens(ids, np.array([len(line.prompt) for line in lines], np.int32), None, 0)
    return prompts, RowChoices(tokens, lengths, given, letters if choice.score == "acc_norm" else None)


def pack_rows(
    task: str, rows: list[Row], texts: Texts, model: TextModel, choice: Choice, *, seed: str, **about: str
) -> PackedText:
    """`about` as of texts.pack.pack(); `choice.per_class` is how many training rows are taken in all."""
    if not model.answers_behind:
        raise InputError(f"{model.folder}: neither a T5 nor a decoder, which alone score choices of each row")
    if model.is_t5 and any(len(row.contexts) > 1 for row in rows):
        raise InputError(f"task {task}: its choices stand in the context; expected a decoder, {model.folder} is a T5")
    split, keys = deal(texts, seed)
    for at in np.flatnonzero(split >= 0):
        if len(rows[at].contexts) > 1 and not line_of_decoder(model, rows[at]).prompt:
            texts.left_out[WITHOUT_BEGINNING] += 1
            split[at] = -1
    count = max(len(row.letters) for row in rows)
    tokens, choices, labels, keys_of = {}, {}, {}, {}
    for which, part in enumerate(SPLIT_NAMES):
        most = choice.per_class if which == TRAIN else choice.test if which == TEST else choice.validation
        some = shuffled_rows(split, which, seed, most)
        if len(some) == 0:
            raise InputError(f"task {task}: {len(split)} rows leave none for {part}; expected more rows")
        chosen = [rows[row] for row in some]
        tokens[part], choices[part] = encoded(model, chosen, choice, count, f"task {task}")
        labels[part] = np.array([row.right for row in chosen], np.int64)
        keys_of[part] = [keys[row] for row in some]
    return PackedText(
        task,
        about.pop("source"),
        about.pop("license"),
        [Class(f"choice {number + 1}", "", []) for number in range(count)],
        tokens,
        labels,
        keys_of,
        ChoiceHead(),
        1.0,
        choices=choices,
        attributes={**about, "tokenizer": model.fingerprint, "truncated": 0},
    )
