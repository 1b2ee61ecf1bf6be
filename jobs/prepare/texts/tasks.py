# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' language tasks from data sets on disk, as tasks.toml declares them."""

import argparse
import hashlib
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import walk
from errors import InputError, shown
from packed import COUNTS_TITLE, Say, already_built, code
from splits import TEST, TRAIN, VALIDATION
from texts.choices import ByRow, pack_rows, read_rows
from texts.columnar import is_saved
from texts.language import summary
from texts.minilm import text_model
from texts.model import TextModel
from texts.new_tokens import unknown_words, with_new_tokens
from texts.pack import Choice, Class, pack, pack_answers, write
from texts.prompts import MASK, Prompt, parse
from texts.read import SPLIT_FILES, SUFFIXES, Columns, kind_of, parts_of, read_texts

TABLE = Path(__file__).parent / "tasks.toml"
CODE = ("texts/answers.py", "texts/columnar.py", "texts/pack.py", "packed.py", "texts/prompts.py", "splits.py")
CODE += ("texts/choices.py", "texts/model.py", "texts/tasks.py", "texts/read.py", "walk.py", "labels.py")
ENDINGS = (".parquet", *(suffix + packed for suffix in SUFFIXES for packed in ("", ".gz")))
OWN = "own"  # --answers: each row has choices of its own
SPLITS = {"train": TRAIN, "validation": VALIDATION, "test": TEST}


@dataclass(frozen=True)
class Task:
    """One entry of the table."""

    name: str
    title: str
    source: str
    label: str
    prompt: Prompt | None  # of a masked language model
    answers: Prompt | None  # of a T5
    classes: list[Class]
    words: list[str]  # that a T5 answers, a class each
    plain_labels: list[str]
    folders: list[str]
    splits: dict[str, int]
    sentence: str
    checked: bool
    note: str
    metric: str = ""  # of answers that are texts
    answer: str = ""  # how these are written
    by_row: ByRow | None = None  # where each row's choices stand

    @property
    def named(self) -> list[str]:
        """The columns in the order in which a plain TSV has them."""
        prompt = self.prompt or self.answers
        assert prompt is not None
        return prompt.columns

    @cached_property
    def before_mask(self) -> Prompt | None:
        """The masked language model's prompt up to its mask, where nothing but a full stop stands behind that."""
        if self.prompt is None:
            return None
        before, _, behind = self.prompt.template.partition(f"{{{MASK}}}")
        return parse(before.rstrip(), self.name, mask=False) if not behind.strip(". ") and before.strip() else None

    def prompt_for(self, model: TextModel) -> Prompt | None:
        """None where the model reads none, or the table has none for it. A decoder reads a T5's prompt, or else that of
        a masked language model which ends with its mask."""
        if model.is_decoder:
            return self.answers or self.before_mask
        return self.answers if model.is_t5 else self.prompt if model.masked_lm else None

    def columns(self, plain: bool, prompt: Prompt | None, classes: Collection[str] = ()) -> Columns:
        """Finds columns by name or, in a plain TSV, by place: the label, then the prompt's columns. An encoder reads
        the columns of whichever prompt the table has."""
        wanted = prompt or self.prompt or self.answers
        assert wanted is not None
        place = {name: str(2 + at) for at, name in enumerate(self.named)}
        names = [place[name] for name in wanted.columns] if plain else wanted.columns
        optional = [name in wanted.optional for name in wanted.columns]
        return Columns(
            names[0],
            "1" if plain else self.label,
            parts=tuple(zip(names, optional, strict=True)),
            drop_unlabelled=True,
            classes=frozenset(classes),
            answer=self.answer,
        )

    def matched(self, plain: bool, model: TextModel) -> list[Class]:
        """Classes by what a plain TSV, or the hub's source, calls them."""
        classes = self.classes
        if model.answers_behind and self.answers is not None:
            pairs = zip(classes, self.words, strict=True)
            classes = [Class(each.name, each.match, each.sentences, word, each.also) for each, word in pairs]
        if not plain or not self.plain_labels:
            return classes
        pairs = zip(classes, self.plain_labels, strict=True)
        return [Class(each.name, label, each.sentences, each.word) for each, label in pairs]


def form_of(entry: Mapping[str, Any], where: str) -> ByRow:
    return ByRow(
        parse(entry["prompt"], where, mask=False),
        tuple(entry["choices"]),
        entry.get("same", False),
        entry.get("names", ""),
        entry.get("written", ""),
    )


def read(path: Path = TABLE) -> dict[str, tuple[Task, list[str]]]:
    """Tasks by name, each with the sets that it belongs to. The table is a part of the program: a fault in it is one of
    the program's."""
    tasks = {}
    for name, entry in tomllib.loads(path.read_text("utf-8"))["tasks"].items():
        sentence, t5, where = entry.get("sentence", ""), entry.get("t5"), f"{path.name}: {name}"
        classes = [
            Class(title, matches[0], [sentence.replace("{}", word)] if sentence else [], word, tuple(matches[1:]))
            for title, word, *matches in entry.get("classes", [])
        ]
        task = Task(
            name,
            entry["title"],
            entry["source"],
            entry["label"],
            parse(entry["prompt"], where) if "prompt" in entry else None,
            parse(t5["prompt"], where, mask=False) if t5 else None,
            classes,
            t5.get("words", []) if t5 else [],
            entry.get("plain_labels", []),
            [name, *entry.get("also", [])],
            {split: SPLITS[stands_for] for split, stands_for in entry.get("splits", {}).items()},
            sentence,
            entry.get("checked", False),
            entry.get("note", ""),
            t5.get("metric", "") if t5 else "",
            t5.get("answer", "{}") if t5 and "metric" in t5 else "",
            form_of(entry["by_row"], where) if "by_row" in entry else None,
        )
        tasks[name] = (task, entry["sets"])
    return tasks


def place_of(task: Task, location: Path) -> Path | None:
    """A folder, or one file, of the task's name or another of its names."""
    for name in task.folders:
        if (location / name).is_dir():
            return location / name
        files = [location / f"{name}{ending}" for ending in ENDINGS]
        if there := next((path for path in files if path.is_file()), None):
            return there
    return None


def is_plain(place: Path) -> bool:
    """Whether it holds TSV, which has no line of names here."""
    if place.is_dir():
        return not is_saved(place) and any(kind_of(Path(entry.path)) == ".tsv" for entry in walk.held(place)[1])
    return kind_of(place) == ".tsv"


def splits_of(task: Task, place: Path, plain: bool) -> Mapping[str, int]:
    """A plain copy has its own splits, whose test has labels."""
    return SPLIT_FILES if plain or not task.splits or place.is_file() else task.splits


def built_from(task: Task, place: Path, model: TextModel, options: argparse.Namespace) -> str:
    """The digest of code, options and source, whose files count by name, size and time: equal digests mean equal
    packed files."""
    made_of: list[Any] = [task, model.fingerprint, str(model.folder), options.tokens, options.per_class]
    made_of += [options.validation, options.test, options.seed, options.answers, options.answer_tokens, options.score]
    plain = is_plain(place)
    for split, part in parts_of(place, splits_of(task, place, plain))[0]:
        for path in sorted(part.iterdir()) if part.is_dir() else [part]:
            about = path.stat()
            made_of.append((split, str(path), about.st_size, about.st_mtime_ns))
    return hashlib.sha256(repr(made_of).encode() + code(CODE)).hexdigest()


def chosen(options: argparse.Namespace) -> list[Task]:
    table = read()
    only = [name for name in (options.only or "").split(",") if name]
    for name in only:
        if name not in table:
            raise InputError(f"--only {name}: not known; expected some of {', '.join(table)}")
    return [task for name, (task, sets) in table.items() if (name in only if only else options.set in sets)]


def prepare(options: argparse.Namespace, say: Say) -> None:
    """Every task whose data are there; the others are listed with where they are expected. Raises InputError where
    there is none."""
    tasks, location = chosen(options), options.data_location.expanduser()
    places = {task.name: place_of(task, location) for task in tasks}
    model = TextModel(options.model) if options.model is not None else text_model()
    there = [task for task in tasks if places[task.name] is not None]
    if not there:
        raise InputError(
            f"{location}: holds none of the {len(tasks)} tasks; expected {tasks[0].name} or others, "
            "folders with train, validation and test"
        )
    if options.answers == OWN and (without := [task.name for task in there if task.by_row is None]):
        raise InputError(
            f"--answers own: the table has no choices by row of {', '.join(without)}; expected --set choices"
        )
    lacking = [task.name for task in there if model.prompted and task.prompt_for(model) is None]
    if lacking and options.answers != OWN:
        raise InputError(
            f"{model.folder}: is {model.called}, for which the table has no prompt of {', '.join(lacking)}; expected "
            "--only with others, or --set"
        )
    if model.masked_lm and options.new_tokens is not None:
        words = [each.word for task in tasks for each in task.classes]  # also of those that may come later
        new = unknown_words(model, words)
        model = with_new_tokens(model, words, options.new_tokens)
        say(f"new tokens in {options.new_tokens}: {', '.join(new)}" if new else "no new token is needed")
    elif options.new_tokens is not None:
        raise InputError(f"--new-tokens: belongs to a masked language model; {model.folder} is none")
    if not model.prompted and (without := [task.name for task in there if not task.sentence]):
        raise InputError(
            f"{model.folder}: is no masked language model, and the table has no label sentence of "
            f"{', '.join(without)}; expected a masked language model, or --only with others"
        )
    say(COUNTS_TITLE)
    for task in there:
        place = places[task.name]
        assert place is not None
        say(pack_one(task, place, model, options))
    for task in tasks:
        if places[task.name] is None:
            expected = " or ".join(str(location / name) for name in task.folders)
            say(
                f"{task.name}: missing; expected {expected} ({task.source}: columns {', '.join(task.named)}, "
                f"{task.label}, unverified)"
            )


def pack_one(task: Task, place: Path, model: TextModel, options: argparse.Namespace) -> str:
    """A line on what was written."""
    path, plain = options.out / f"{task.name}.h5", is_plain(place)
    doubt = "" if plain and task.checked else "; columns unverified: look at what was packed"
    made_of = built_from(task, place, model, options)
    if already_built(path, made_of):
        return f"{summary(path)} (unchanged)"
    choice = Choice(
        options.tokens,
        options.per_class,
        options.validation,
        options.test,
        options.answers,
        options.answer_tokens,
        options.score,
    )
    about = {
        "source": task.source,
        "license": "not stated",
        "title": task.title,
        "verified": "a plain copy" if plain and task.checked else "no",
        "built_from": made_of,
    }
    splits, seed = splits_of(task, place, plain), f"{task.name}/{options.seed}"
    if choice.answers == OWN:
        assert task.by_row is not None
        if plain:
            raise InputError(f"{place}: holds TSV without names of columns; expected the source's files")
        rows, texts = read_rows(place, task.by_row, task.label, task.classes, splits)
        about["prompt"] = task.by_row.prompt.template
        packed = pack_rows(task.name, rows, texts, model, choice, seed=seed, **about)
        write(packed, path)
        return packed.summary() + walk.closing(texts.left_out) + doubt
    prompt = task.prompt_for(model)
    about["note"] = "" if model.answers_behind and prompt is task.answers else task.note  # which is of the other prompt
    classes = task.matched(plain, model)
    known = {match for each in classes for match in each.matches}
    texts = read_texts(place, task.columns(plain, prompt, known), splits)
    if task.metric:
        assert prompt is not None
        packed = pack_answers(task.name, texts, model, choice, seed=seed, prompt=prompt, metric=task.metric, **about)
        write(packed, path)
        cut = packed.attributes["answers_cut"]
        return (
            packed.summary()
            + (f", {cut} answers cut to {options.answer_tokens}" if cut else "")
            + walk.closing(texts.left_out)
            + doubt
        )
    if strange := sorted(set(texts.labels) - known):
        expected = ", ".join(sorted(known))
        raise InputError(f"{place}: the label {shown(strange[0])} is none of {task.name}'s; expected {expected}")
    packed = pack(task.name, texts, classes, model, choice, seed=seed, prompt=prompt, **about)
    write(packed, path)
    return packed.summary() + walk.closing(texts.left_out) + doubt
