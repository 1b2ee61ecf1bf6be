# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a run's results lie, HDF5 values as text, and files that the commands write."""

from __future__ import annotations

import os
import unicodedata
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from taugrid_analysis.errors import InputError

LINE_MOST = 470  # letters of a message behind the program's name; with it 500
WORD_LEAST = 160  # of its words that have been shortened: most paths stay whole
TURNS_MOST = 8
FIGURE_FORMATS = (".png", ".svg", ".pdf")
# Unicode's categories of what may not reach a reader: controls, marks of direction, surrogates, line breaks,
# and what is no letter at all, which XML refuses.
HIDDEN = {"Cc", "Cf", "Cn", "Cs", "Zl", "Zp"}


def visible(words: str) -> str:
    """Writes the words on one line, with escapes in the place of control characters.

    Names and texts of files that somebody else may have made go through it to terminals, pages and figures.
    """
    if words.isprintable():
        return words
    return "".join(
        ascii(letter)[1:-1] if unicodedata.category(letter) in HIDDEN else letter for letter in words
    )


def line(words: str) -> str:
    """A message as one line of at most LINE_MOST letters: the longest words lose their middle."""
    words = visible(words)
    for turn in count():
        longest = max(words.split(" "), key=len)
        if len(words) <= LINE_MOST:
            return words
        if len(longest) <= WORD_LEAST + 1 or turn > TURNS_MOST:  # many words: the line's own middle
            longest = words
        kept = max(WORD_LEAST, len(longest) - (len(words) - LINE_MOST) - 1)
        words = words.replace(longest, f"{longest[: kept * 2 // 3]}…{longest[len(longest) - kept // 3 :]}", 1)
    return words


def label(value: Any) -> str:
    """What text() gives, as it may be shown."""
    return visible(text(value))


def text(value: Any) -> str:
    """An HDF5 string, fixed or variable, as str; anything else as its usual text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").rstrip("\0")
    if isinstance(value, np.ndarray):
        return ", ".join(text(item) for item in value.ravel())
    if isinstance(value, np.generic):
        return text(value.item())
    return str(value)


def locate(run: Path) -> Path:
    """RUN may be a run folder or the path of its results.h5."""
    if run.is_dir():
        path = regular(run / "results.h5", "a complete results.h5")
        if path.is_file():
            return path
        units = run / "units"
        count = sum(1 for _ in units.iterdir()) if units.is_dir() else 0
        state = f"no results.h5 ({count} work units are committed)" if count else "no results.h5"
        raise InputError(state, run, "a finished run; run the same `taugrid run` again to continue it")
    if not run.exists():
        raise InputError("does not exist", run, "a run folder or a results.h5")
    return regular(run, "a run folder or a results.h5")


def regular(path: Path, expected: str) -> Path:
    """The path, unless it is there and no ordinary file: to read a pipe or a device may take for ever."""
    if path.exists() and not path.is_file():
        raise InputError("is no ordinary file", path, expected)
    return path


def picture_format(out: Path) -> str:
    if out.suffix not in FIGURE_FORMATS:
        raise InputError(f"unknown format {out.suffix or '(none)'}", out, "png, svg or pdf")
    return out.suffix[1:]


def write(path: Path, content: bytes, title: str = "") -> None:
    """Writes the whole file or nothing: what was there before stays until all is written."""
    place = path.resolve()  # a link stays one
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        if place.exists() and not place.is_file():  # a pipe, or /dev/stdout
            place.write_bytes(content)
        else:
            part.write_bytes(content)
            part.replace(place)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"cannot be written ({error.strerror})", path, "a writable folder") from error
    print(f"{title}{path}")
