# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The user's own labelled texts: TSV, CSV or JSON lines, plain or .gz, or Parquet, one file or a folder with files a
split; or a folder that `datasets.save_to_disk` wrote."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from errors import InputError, checked_text, one_line, shown
from formats import read_whole
from labels import DROP, WITHOUT_LABEL, means_none
from splits import TEST, TRAIN, VALIDATION
from texts.columnar import is_saved, parquet_rows, saved_rows, saved_splits
from texts.language_sources import Texts
from walk import OTHER_NAMES, LeftOut, held

SPLIT_FILES = {
    "train": TRAIN,
    "dev": VALIDATION,
    "val": VALIDATION,
    "valid": VALIDATION,
    "validation": VALIDATION,
    "test": TEST,
}
SUFFIXES = (".tsv", ".csv", ".jsonl")
PARQUET = ".parquet"
TEXT_MOST = 1_000_000  # letters; more take a tokenizer minutes and gigabytes
csv.field_size_limit(2**31 - 1)  # files are in memory already: the limit of Python's csv, 131,072, spares nothing
SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{1,6})-of-(?P<count>\d{1,6})")  # of a split in several files


@dataclass
class Columns:
    """Names of columns, or their numbers from 1 on where the file has no line of names; "" where there is none."""

    text: str
    label: str
    second: str = ""
    group: str = ""
    parts: tuple[tuple[str, bool], ...] = ()  # those of a prompt, and whether a row may lack them
    drop_unlabelled: bool = False  # rows without a label are left out and counted, not refused
    classes: frozenset[str] = frozenset()  # labels that are classes, whatever else they may mean
    answer: str = ""  # labels are answers, written so ("{}", "{:.1f}"), a line each of several

    @property
    def texts(self) -> list[str]:
        return [name for name, _ in self.parts] or [self.text, *([self.second] if self.second else [])]

    @property
    def numbered(self) -> bool:
        return all(each.isdigit() for each in (self.label, self.group, *self.texts) if each)


def kind_of(path: Path) -> str:
    if path.name.endswith(PARQUET):
        return PARQUET
    name = path.name.removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")


def lines_of(path: Path) -> io.StringIO:
    try:
        text = read_whole(path, "text in UTF-8").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {error}; expected text in UTF-8") from None
    return io.StringIO(text, newline="")


def rows_of(path: Path, numbered: bool) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Line number, or of Parquet and Arrow the row's, and columns."""
    if path.is_dir():
        yield from saved_rows(path)
        return
    kind = kind_of(path)
    if kind == PARQUET:
        yield from parquet_rows(path)
        return
    text = lines_of(path)
    if kind == ".jsonl":
        for number, line in enumerate(text, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path}:{number}: {one_line(error)}; expected a JSON object a line") from None
            if not isinstance(row, dict):
                raise InputError(f"{path}:{number}: no JSON object; expected one a line")
            yield number, row
        return
    quoting: Any = csv.QUOTE_NONE if kind == ".tsv" else csv.QUOTE_MINIMAL
    reader = csv.reader(text, delimiter="\t" if kind == ".tsv" else ",", quoting=quoting, strict=True)
    try:
        names = None if numbered else next(reader, [])
        if names and len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f'{path}:1: two columns "{shown(twice)}"; expected each name once')
        for row in reader:
            if not row:
                continue
            columns = names or [str(number) for number in range(1, len(row) + 1)]
            if len(row) != len(columns):
                raise InputError(f"{path}:{reader.line_num}: {len(row)} columns; expected {len(columns)}")
            yield reader.line_num, dict(zip(columns, row, strict=True))
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}; expected {kind[1:].upper()}") from None


def parts_of(path: Path, splits: Mapping[str, int] = SPLIT_FILES) -> tuple[list[tuple[int, Path]], LeftOut]:
    """What to read, with its split, −1 where the source has none, and what is left out. `splits` says what a split's
    name stands for; others are left alone."""
    if kind_of(path) and path.exists() and not path.is_dir():
        return [(-1, path)], LeftOut()
    if not path.is_dir():
        known = ", ".join([*SUFFIXES, PARQUET])
        raise InputError(f"{path}: neither a folder nor a file {known}; expected one of these, or .gz of the former")
    if is_saved(path):
        named = saved_splits(path)
        if "" in named:
            return [(-1, named[""])], LeftOut()
        parts = [(splits[name.lower()], folder) for name, folder in named.items() if name.lower() in splits]
        left_out = LeftOut({OTHER_NAMES: len(named) - len(parts)})
    else:
        paths: dict[str, list[Path]] = {}
        _, entries, left_out = held(path)
        for file in (Path(entry.path) for entry in entries):
            stem = file.name.split(".")[0].lower()
            shard = SHARD.fullmatch(stem)
            if kind_of(file) and (name := shard["split"] if shard else stem) in splits:
                paths.setdefault(name, []).append(file)
        for name, files in paths.items():
            require_whole(path, name, files)
        parts = [(splits[name], file) for name, files in paths.items() for file in files]
        left_out += LeftOut({OTHER_NAMES: len(entries) - len(parts)})
        if len({splits[name] for name in paths}) < len(paths):
            raise InputError(f"{path}: two files of one split; expected one of train, dev and test each")
    if TRAIN not in {split for split, _ in parts}:
        names = ", ".join(name for name, split in splits.items() if split == TRAIN)
        kinds = "tsv, .csv, .jsonl or .parquet"
        raise InputError(f"{path}: no file {names}.{kinds}; expected it, and perhaps dev and test")
    return parts, left_out


def require_whole(folder: Path, name: str, files: list[Path]) -> None:
    """One file, or each of its shards once."""
    shards = [SHARD.fullmatch(file.name.split(".")[0]) for file in files]
    if len(files) == 1 and shards[0] is None:
        return
    if not all(shards):
        raise InputError(f"{folder}: two files of one split; expected one of train, dev and test each")
    numbers = sorted(int(shard["number"]) for shard in shards if shard)
    counts = {int(shard["count"]) for shard in shards if shard}
    if len(counts) > 1 or len(files) != max(counts) or numbers != list(range(max(counts))):
        raise InputError(f"{folder}: {len(files)} files {name}-…-of-…; expected each of {max(counts)} once")


ABSENT = object()


def column_of(row: Mapping[str, Any], name: str) -> Any:
    """A column, or, by dots, a part of one: "choices.text.0" is the first of the list "text" of the structure
    "choices". ABSENT where there is none."""
    if name in row:
        return row[name]
    held: Any = row
    for step in name.split("."):
        if isinstance(held, Mapping) and step in held:
            held = held[step]
        elif isinstance(held, list) and step.isdigit() and int(step) < len(held):
            held = held[int(step)]
        else:
            return ABSENT
    return held


OPTIONAL = (None, ABSENT)


def text_in(row: Mapping[str, Any], name: str, where: str, empty: tuple[Any, ...] = ()) -> str:
    """What a column holds, or "" for what `empty` names. Raises InputError where it is missing or without words."""
    held = column_of(row, name)
    if any(held is value or (value == "" and held == "") for value in empty):
        return ""
    if held is ABSENT:
        raise InputError(f'{where}: no column "{name}"; expected one of {shown(", ".join(row))}')
    if held is not None and not isinstance(held, str | int):
        raise InputError(f'{where}: column "{name}" holds {type(held).__name__}; expected text')
    cell = "" if held is None else str(held).strip()
    if not cell and not empty:
        raise InputError(f'{where}: column "{name}" is empty; expected words')
    if len(cell) > TEXT_MOST:
        raise InputError(f'{where}: column "{name}" has {len(cell)} letters; expected at most {TEXT_MOST}')
    return checked_text(cell, f'{where}: column "{name}"', nul=True)


def answers_in(row: Mapping[str, Any], name: str, written: str, where: str) -> str:
    """A column's text or number, or several in a list, a line each, as `written` has them. Raises InputError."""
    held = column_of(row, name)
    if held is ABSENT:
        raise InputError(f'{where}: no column "{name}"; expected one of {shown(", ".join(row))}')
    answers = []
    for item in held if isinstance(held, list) else [held]:
        try:
            value = float(item) if ":" in written else item
            answer = " ".join(written.format(value).split()) if isinstance(value, str | int | float) else ""
        except (TypeError, ValueError):
            answer = ""
        if not answer:
            kind = "number" if ":" in written else "text"
            raise InputError(f'{where}: column "{name}" holds "{shown(str(item))}"; expected a {kind}')
        answers.append(answer)
    if not answers:
        raise InputError(f'{where}: column "{name}" has no answer; expected one at least')
    return "\n".join(dict.fromkeys(answers))


def words_in(row: Mapping[str, Any], name: str, where: str, empty: tuple[Any, ...] = ()) -> str:
    """Does what text_in() does, and joins the texts where a cell has a list of them."""
    held = column_of(row, name)
    if isinstance(held, list) and held and all(isinstance(text, str) for text in held):
        return " ".join(held)
    return text_in(row, name, where, empty)


def read_texts(path: Path, columns: Columns, splits: Mapping[str, int] = SPLIT_FILES) -> Texts:
    """`splits` as of parts_of(). Without a column of groups each text is its own. Raises InputError with file and
    line."""
    fixed: list[int] = []
    parts_to_read, left_out = parts_of(path, splits)
    out = Texts(left_out=left_out)
    for split, part in parts_to_read:
        for number, row in rows_of(part, columns.numbered):
            where = f"{part}:{number}"
            parts: tuple[str, ...] = ()
            if columns.parts:
                reader = words_in if columns.answer else text_in
                parts = tuple(reader(row, name, where, OPTIONAL * optional) for name, optional in columns.parts)
                first, second = parts[0], "\n".join(parts[1:]) if len(parts) > 1 else None
            else:
                first = text_in(row, columns.text, where)
                second = text_in(row, columns.second, where) if columns.second else None
            key = f"group {text_in(row, columns.group, where)}" if columns.group else f"{first}\n{second}"
            if columns.answer:
                label = answers_in(row, columns.label, columns.answer, where)
            else:
                label = text_in(row, columns.label, where, (None, ""))
                if means_none(label, columns.classes):
                    if not columns.drop_unlabelled:
                        raise InputError(
                            f'{where}: the label "{shown(label)}" means none in many sets; expected {DROP}, or '
                            "--classes, which may name it"
                        )
                    out.left_out[WITHOUT_LABEL] += 1
                    continue
                checked_text(label, where)
            out.add(first, label, key, second)
            if parts:
                out.parts.append(parts)
            fixed.append(split)
    if not out.first:
        raise InputError(f"{path}: no texts; expected at least one a class")
    if set(fixed) != {-1}:
        out.fixed = np.array(fixed, np.int64)
    return out
