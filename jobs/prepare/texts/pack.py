# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Labelled texts to the packed file: splits that do not leak, tokens of the model's own tokenizer, a frozen head of
label sentences that the model itself encodes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from errors import InputError
from packed import counts_line, write_head, write_keys, write_whole, write_words
from splits import SPLIT_NAMES, TEST, TRAIN, balanced, merge_keys, shuffled_rows, split_by_key
from texts.answers import (
    SEVERAL,
    ChoiceHead,
    RowChoices,
    SequenceHead,
    Targets,
    TextHead,
    sequence_head,
    targets,
    text_head,
)
from texts.language_sources import Texts
from texts.minilm import unit_rows
from texts.model import TextModel, Tokens
from texts.new_tokens import new_words
from texts.prompts import Prompt, WordHead, word_head

LOGIT_SCALE = 30.0


@dataclass
class Class:
    name: str
    match: str  # what the source calls it
    sentences: list[str]
    word: str = ""  # of prompts
    also: tuple[str, ...] = ()  # what else the source calls it

    @property
    def matches(self) -> tuple[str, ...]:
        return (self.match, *self.also)


@dataclass
class Choice:
    """How many tokens a text has at most, and how many texts are taken: of train for each class, of validation and
    test in all, as many of each class; None takes all."""

    tokens: int
    per_class: int | None = None
    validation: int | None = None
    test: int | None = None
    answers: str | None = None  # which tokens of a class's answer are read: "whole" (as of a T5) or "first" (a decoder)
    # or "own", where each row has choices of its own: texts.choices
    answer_tokens: int = 32  # of answers that are texts, at most
    score: str = "acc"  # how whole answers are compared: by log p ("acc"), or by log p a letter ("acc_norm")


@dataclass
class PackedText:
    task: str
    source: str
    license: str
    classes: list[Class]
    tokens: dict[str, Tokens]
    labels: dict[str, NDArray[np.int64]]
    keys: dict[str, list[str]]
    head: NDArray[np.float32] | WordHead | SequenceHead | TextHead | ChoiceHead
    logit_scale: float
    targets: dict[str, Targets] = field(default_factory=dict)  # of texts as answers
    attributes: dict[str, str | int] = field(default_factory=dict)
    choices: dict[str, RowChoices] = field(default_factory=dict)  # of rows that have their own

    @property
    def truncated(self) -> int:
        """How many texts did not fit."""
        return sum(self.tokens[split].truncated for split in SPLIT_NAMES)

    def summary(self) -> str:
        counts = [len(self.labels[split]) for split in SPLIT_NAMES]
        cut, most = self.truncated, self.tokens["train"].ids.shape[1]
        line = counts_line(self.task, counts, len(self.classes))
        if isinstance(self.head, TextHead):
            line += f" (texts: {self.head.metric})"
        return f"{line}, {cut} of {sum(counts)} texts cut to {most} tokens"


def in_one_key(texts: Texts) -> list[str]:
    """Keys, those of equal texts made one."""
    pairs = zip(texts.first, texts.second or [""] * len(texts.first), strict=True)
    contents = [np.frombuffer(f"{first}\n{second}".encode(), np.uint8) for first, second in pairs]
    return merge_keys(texts.keys, contents)


def contradicted(texts: Texts) -> NDArray[np.bool_]:
    """Texts that stand, equal, under two labels: no answer to them is right."""
    pairs = list(zip(texts.first, texts.second or [""] * len(texts.first), strict=True))
    labels_of: dict[tuple[str, str], set[str]] = {}
    for pair, label in zip(pairs, texts.labels, strict=True):
        labels_of.setdefault(pair, set()).add(label)
    return np.array([len(labels_of[pair]) > 1 for pair in pairs])


def deal(texts: Texts, seed: str, one_label: bool = True) -> tuple[NDArray[np.int64], list[str]]:
    """TRAIN, VALIDATION or TEST a row, −1 for what is left out, and the rows' keys. No key stands in two splits: of a
    split that the source gives, training rows whose key is in its test are left out. With `one_label` so are texts that
    have several."""
    keys = in_one_key(texts)
    usable = ~contradicted(texts) if one_label else np.ones(len(keys), bool)
    if texts.fixed is not None:
        tested = {keys[row] for row in np.flatnonzero(texts.fixed == TEST)}
        usable &= np.array([texts.fixed[row] == TEST or key not in tested for row, key in enumerate(keys)])
    inside = np.flatnonzero(usable)
    split = np.full(len(keys), -1, np.int64)
    fixed = None if texts.fixed is None else texts.fixed[inside]
    split[inside] = split_by_key([keys[row] for row in inside], seed, fixed)
    if texts.fixed is not None:  # what shares a key with a row of another split that was given
        seen: dict[str, int] = {}
        for row in sorted(inside, key=lambda row: -int(split[row])):  # test, validation, train
            if seen.setdefault(keys[row], int(split[row])) != split[row]:
                split[row] = -1
    return split, keys


def pack(
    task: str,
    texts: Texts,
    classes: list[Class],
    model: TextModel,
    choice: Choice,
    *,
    seed: str,
    prompt: Prompt | None = None,
    **about: str,
) -> PackedText:
    """`about`: source, license, and further attributes. With a prompt the head are the classes' words."""
    head: NDArray[np.float32] | WordHead | SequenceHead
    usual = "whole" if model.is_t5 else "first"
    whole = prompt is not None and model.answers_behind and (choice.answers or usual) == "whole"
    if choice.score == "acc_norm" and not whole:
        raise InputError("--score acc_norm: is of whole answers; expected --answers whole, of a T5 or a decoder")
    if prompt is None:
        head = head_of(model, classes, f"task {task}")
    elif whole:
        by_letter = choice.score == "acc_norm"
        head = sequence_head(model, [each.word for each in classes], f"task {task}", prompt, by_letter=by_letter)
    else:
        head = word_head(model, [each.word for each in classes], f"task {task}", prompt=prompt)
        if model.answers_behind:
            several = [word for word in head.words if len(model.word_tokens(word, prompt)) > 1]
            about["first_tokens"] = ", ".join(several)  # words of which the first token stands for all
        else:
            new = set(new_words(model)) & set(head.words)
            about |= {"mask": model.mask, "new_tokens": ", ".join(sorted(new))}
    if prompt is not None:
        about = {**about, "prompt": prompt.template, **({"chat": prompt.chat} if prompt.chat else {})}
    number = {match: index for index, each in enumerate(classes) for match in each.matches}
    known = [row for row, label in enumerate(texts.labels) if label in number]
    if not known:
        raise InputError(f"task {task}: no text has one of the labels {', '.join(number)}")
    texts = Texts(
        [texts.first[row] for row in known],
        [texts.second[row] for row in known] if texts.second else [],
        [texts.labels[row] for row in known],
        [texts.keys[row] for row in known],
        None if texts.fixed is None else texts.fixed[known],
        [texts.parts[row] for row in known] if texts.parts else [],
    )
    labels = np.array([number[label] for label in texts.labels], np.int64)
    split, keys = deal(texts, seed)
    rows = {}
    for which, part in enumerate(SPLIT_NAMES):
        most = choice.per_class if which == TRAIN else choice.test if which == TEST else choice.validation
        if most is not None and which != TRAIN:
            most = max(1, most // len(classes))
        rows[part] = balanced(shuffled_rows(split, which, seed), labels, most)
        lacking = set(range(len(classes))) - set(labels[rows[part]].tolist())
        if len(rows[part]) == 0 or (which == TRAIN and lacking):
            name = f" of class {classes[min(lacking)].name}" if lacking else ""
            raise InputError(f"task {task}: {len(labels)} texts leave none{name} for {part}; expected more texts")

    def tokens(some: NDArray[np.int64]) -> Tokens:
        if prompt is not None:
            return model.encode_prompts(prompt, [texts.parts[row] for row in some], choice.tokens)
        second = [texts.second[row] for row in some] if texts.second else []
        return model.encode([texts.first[row] for row in some], second, choice.tokens)

    encoded = {part: tokens(some) for part, some in rows.items()}
    packed = PackedText(
        task,
        about.pop("source"),
        about.pop("license"),
        classes,
        encoded,
        {part: labels[some] for part, some in rows.items()},
        {part: [keys[row] for row in some] for part, some in rows.items()},
        head,
        LOGIT_SCALE,
        attributes={**about, "tokenizer": model.fingerprint},
    )
    packed.attributes["truncated"] = packed.truncated
    return packed


def with_references(texts: Texts, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
    """Each text once, in the order of the rows, with all answers that it has among them."""
    answers: dict[tuple[str, ...], dict[str, None]] = {}
    first: dict[tuple[str, ...], int] = {}
    for row in rows:
        first.setdefault(texts.parts[row], int(row))
        answers.setdefault(texts.parts[row], {}).update(dict.fromkeys(texts.labels[row].split(SEVERAL)))
    return np.array(list(first.values()), np.int64), [SEVERAL.join(each) for each in answers.values()]


def pack_answers(
    task: str, texts: Texts, model: TextModel, choice: Choice, *, seed: str, prompt: Prompt, metric: str, **about: str
) -> PackedText:
    """Texts that are answered by texts, their labels; `about` as of pack(). A text of validation or test stands there
    once, with all its answers."""
    split, keys = deal(texts, seed, one_label=False)
    head = text_head(model, metric)
    rows, answers_of, encoded = {}, {}, {}
    for which, part in enumerate(SPLIT_NAMES):
        most = choice.per_class if which == TRAIN else choice.test if which == TEST else choice.validation
        some = shuffled_rows(split, which, seed)
        answers = [texts.labels[row] for row in some]
        if which != TRAIN:
            some, answers = with_references(texts, some)
        rows[part], answers = some[:most], answers[:most]
        if len(rows[part]) == 0:
            raise InputError(f"task {task}: {len(split)} texts leave none for {part}; expected more texts")
        answers_of[part] = targets(
            model, answers, choice.answer_tokens, prompt=prompt, metric=metric, where=f"task {task}"
        )
        encoded[part] = model.encode_prompts(prompt, [texts.parts[row] for row in rows[part]], choice.tokens)
    packed = PackedText(
        task,
        about.pop("source"),
        about.pop("license"),
        [],
        encoded,
        {part: np.zeros(len(some), np.int64) for part, some in rows.items()},
        {part: [keys[row] for row in some] for part, some in rows.items()},
        head,
        LOGIT_SCALE,
        answers_of,
        {**about, "prompt": prompt.template, "tokenizer": model.fingerprint},
    )
    packed.attributes["truncated"] = packed.truncated
    packed.attributes["answers_cut"] = sum(each.cut for each in answers_of.values())
    return packed


SAME = 1e-6  # of unit rows in float32


def head_of(model: TextModel, classes: Sequence[Class], where: str) -> NDArray[np.float32]:
    """One unit row a class: the normalised mean of its sentences' unit embeddings. Two equal rows are refused: no model
    tells their classes apart."""
    sentences = [sentence for each in classes for sentence in each.sentences]
    rows = np.split(model.embed(sentences), np.cumsum([len(each.sentences) for each in classes])[:-1])
    head = unit_rows(np.stack([each.mean(0) for each in rows]))
    for second in range(len(head)):
        for first in range(second):
            if np.abs(head[first] - head[second]).max() < SAME:
                names = f"{classes[first].name} and {classes[second].name}"
                raise InputError(f"{where}: the model reads the sentences of {names} as the same; expected other words")
    return head


def write(packed: PackedText, path: Path, replace: bool = True) -> None:
    def fill(file: h5py.File) -> None:
        file.attrs["task"] = packed.task
        file.attrs["modality"] = "text"
        file.attrs["source"] = packed.source
        file.attrs["license"] = packed.license
        for name, value in packed.attributes.items():
            file.attrs[name] = value
        for split in SPLIT_NAMES:
            group, tokens = file.create_group(split), packed.tokens[split]
            group.create_dataset("inputs", data=tokens.ids)
            group.create_dataset("lengths", data=tokens.lengths)
            if tokens.types is not None:
                group.create_dataset("types", data=tokens.types)
            if tokens.mask is not None:
                group.create_dataset("mask", data=tokens.mask)
            if packed.targets:
                packed.targets[split].write(group)
            else:
                group.create_dataset("labels", data=packed.labels[split])
            if packed.choices:
                packed.choices[split].write(group)
            write_keys(group, packed.keys[split])
        names = [each.name for each in packed.classes]
        if isinstance(packed.head, WordHead):
            write_words(file, packed.head.words, packed.head.tokens, names)
        elif isinstance(packed.head, SequenceHead | ChoiceHead):
            packed.head.write(file, names)
        elif isinstance(packed.head, TextHead):
            packed.head.write(file)
        else:
            write_head(file, packed.head, packed.logit_scale, names)
            file["head"].attrs["sentences"] = [" / ".join(each.sentences) for each in packed.classes]

    write_whole(path, fill, replace)
