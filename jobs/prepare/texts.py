# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The user's own labelled texts: TSV, CSV or JSON lines, plain or .gz, one file or a folder with a file a split."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from errors import InputError, shown
from language_sources import Texts
from splits import TEST, TRAIN, VALIDATION

SPLIT_FILES = {"train": TRAIN, "dev": VALIDATION, "val": VALIDATION, "valid": VALIDATION, "validation": VALIDATION,
               "test": TEST}
SUFFIXES = (".tsv", ".csv", ".jsonl")


@dataclass
class Columns:
    """Names of columns, or their numbers from 1 on where the file has no line of names; "" where there is none."""

    text: str
    label: str
    second: str = ""
    group: str = ""

    @property
    def numbered(self) -> bool:
        return all(each.isdigit() for each in (self.text, self.label, self.second, self.group) if each)


def kind_of(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")


def lines_of(path: Path) -> io.StringIO:
    try:
        held = path.read_bytes()
        text = (gzip.decompress(held) if path.name.endswith(".gz") else held).decode("utf-8-sig")
    except (gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}; expected text in UTF-8") from None
    return io.StringIO(text, newline="")


def rows_of(path: Path, numbered: bool) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Line number and columns."""
    kind, text = kind_of(path), lines_of(path)
    if kind == ".jsonl":
        for number, line in enumerate(text, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}:{number}: {error}; expected a JSON object a line") from None
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


def parts_of(path: Path) -> list[tuple[int, Path]]:
    if path.is_file() and kind_of(path):
        return [(-1, path)]
    if not path.is_dir():
        raise InputError(f"{path}: neither a folder nor a file {', '.join(SUFFIXES)}; expected one of these, or .gz")
    parts = [
        (SPLIT_FILES[stem], each)
        for each in sorted(path.iterdir())
        if kind_of(each) and (stem := each.name.split(".")[0].lower()) in SPLIT_FILES
    ]
    if TRAIN not in {split for split, _ in parts}:
        raise InputError(f"{path}: no file train.tsv, .csv or .jsonl; expected it, and perhaps dev and test")
    if len({split for split, _ in parts}) < len(parts):
        raise InputError(f"{path}: two files of one split; expected one of train, dev and test each")
    return parts


def read_texts(path: Path, columns: Columns) -> Texts:
    """Without a column of groups each text is its own. Raises InputError with file and line."""
    out, fixed = Texts(), []
    for split, part in parts_of(path):
        for number, row in rows_of(part, columns.numbered):

            def value(name: str, row: Mapping[str, Any] = row, where: str = f"{part}:{number}") -> str:
                if name not in row:
                    raise InputError(f'{where}: no column "{name}"; expected one of {shown(", ".join(row))}')
                if not isinstance(row[name], str | int):
                    raise InputError(f'{where}: column "{name}" holds {type(row[name]).__name__}; expected text')
                found = str(row[name]).strip()
                if not found:
                    raise InputError(f'{where}: column "{name}" is empty; expected words')
                return found

            first, second = value(columns.text), value(columns.second) if columns.second else None
            key = f"group {value(columns.group)}" if columns.group else f"{first}\n{second}"
            out.add(first, value(columns.label), key, second)
            fixed.append(split)
    if not out.first:
        raise InputError(f"{path}: no texts; expected at least one a class")
    if set(fixed) != {-1}:
        out.fixed = np.array(fixed, np.int64)
    return out
