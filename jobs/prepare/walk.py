# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The one rule by which folders are walked.

Hidden entries, and what systems strew among people's files, are left out. A link counts as what it leads to. Each other
folder inside a data set is a class, and each file below a class with one of the wanted suffixes, in capitals or not, is
a row. What is left out is counted, and the last line of a command says it.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from errors import InputError, checked_text, shown

STREWN = {"__MACOSX", "@eaDir", "lost+found", "$RECYCLE.BIN", "System Volume Information"}  # folders of systems
HIDDEN, OTHER, OTHER_NAMES = "hidden", "of other suffixes", "of other names"  # what is counted as left out
LeftOut = Counter[str]


def regular(path: str | os.PathLike[str], what: str) -> None:
    """Refuses, before it is opened, what is no ordinary file: to read a pipe or a device may take forever."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        reason = "not found" if isinstance(error, FileNotFoundError) else getattr(error, "strerror", None) or error
        raise InputError(f"{shown(str(path))}: {reason}; expected {what}") from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise InputError(f"{shown(str(path))}: is {kind}; expected {what}")


def is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def held(folder: str | os.PathLike[str]) -> tuple[list[str], list[os.DirEntry[str]], LeftOut]:
    """Lists a folder's own folders, by name, and its other entries, both in the order of their names."""
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"{shown(str(folder))}: {error.strerror or error}; expected a readable folder") from None
    seen = [entry for entry in entries if not entry.name.startswith(".") and entry.name not in STREWN]
    folders = [entry.name for entry in seen if is_folder(entry)]
    files = [entry for entry in seen if not is_folder(entry)]
    return folders, files, LeftOut({HIDDEN: len(entries) - len(seen)})


def classes(root: Path) -> list[str]:
    """Names the folders of a data set, each of which is a class."""
    if not root.exists():
        raise InputError(f"{shown(str(root))}: not found; expected a folder with a subfolder a class")
    names = [checked_text(name, f"{root}: a folder's name") for name in held(root)[0]]
    if not names:
        raise InputError(f"{root}: no subfolders; expected one a class")
    return names


def files(folder: str | os.PathLike[str], suffixes: Iterable[str]) -> tuple[list[str], LeftOut]:
    """Lists all files with these suffixes below a folder in the order of torchvision's ImageFolder, on which the
    papers' seeded split depends: folders by their paths, and in each its files by their names."""
    wanted, by_folder, left_out = set(suffixes), {}, LeftOut()
    to_visit: list[tuple[str, tuple[tuple[int, int], ...]]] = [(os.fspath(folder), ())]
    while to_visit:
        path, above = to_visit.pop()
        about = os.stat(path)
        here = (about.st_dev, about.st_ino)
        if here in above:
            raise InputError(f"{shown(path)}: a link that leads back to a folder above it; expected no such loop")
        folders, entries, hidden = held(path)
        kept = [entry for entry in entries if os.path.splitext(entry.name)[1].lower() in wanted]
        for entry in kept:
            if entry.is_symlink() or not entry.is_file():
                regular(entry.path, "a file, or a link to one")
        by_folder[path] = [f"{path}/{entry.name}" for entry in kept]
        left_out += hidden + LeftOut({OTHER: len(entries) - len(kept)})
        to_visit += [(f"{path}/{name}", (*above, here)) for name in folders]
    return [file for path in sorted(by_folder) for file in by_folder[path]], left_out


def closing(left_out: LeftOut) -> str:
    """Ends a command's last line with how much was left out, and why."""
    reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items() if count)
    return f"; left out: {reasons}" if reasons else ""
