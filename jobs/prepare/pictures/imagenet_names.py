# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""ImageNet's class names, from the several files in which people have them, to the folders that are there."""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from errors import InputError, shown
from formats import read_whole
from pictures.facts import FACTS

WORDNET = re.compile(r"n\d{8}")  # how ImageNet's folders are named
NAMED = re.compile(r"(\S+)[\s,:]+(?:\d+\s+)?(\S.*)")  # a folder, its number in some lists, its name


def named_entries(table: Any, folders: Sequence[str]) -> Iterator[tuple[str | None, Any]]:
    """(the folder that an entry is for, or None where only its place tells; its name)."""
    if isinstance(table, dict):
        for key, value in table.items():
            if isinstance(value, list) and len(value) == 2:  # {"0": ["n01440764", "tench"]}
                yield value[0], value[1]
            else:  # {"n01440764": "tench"} or {"0": "tench"}
                yield (key if key in folders or WORDNET.fullmatch(key) else None), value
    else:
        for line in table:
            named = NAMED.fullmatch(line) if isinstance(line, str) else None
            if isinstance(line, list) and len(line) == 2:
                yield line[0], line[1]
            elif named and (named[1] in folders or WORDNET.fullmatch(named[1])):
                yield named[1], named[2]
            else:
                yield None, line


def names_of(path: Path, folders: Sequence[str]) -> list[str]:
    """Class names in the order of the folders, from lines or JSON.

    Where entries say which folder they are for, they are matched by it, for a list may name more of ImageNet.
    Only where none does, there must be one for each folder, in their order.
    """
    wanted = f"{len(folders)} names: one a line, a JSON list, or a JSON object from folder or number to name"
    try:
        text = read_whole(path, wanted).decode("utf-8-sig")
        table = json.loads(text) if path.suffix.lower() == ".json" else text.splitlines()
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}: {error}; expected {wanted}") from None
    if not isinstance(table, dict | list):
        raise InputError(f"{path}: neither a list nor an object; expected {wanted}")
    if isinstance(table, list):
        table = [line.strip() if isinstance(line, str) else line for line in table]
        table = [line for line in table if line != ""]
    entries = list(named_entries(table, folders))
    for folder, name in entries:
        if not isinstance(folder, str | None) or not isinstance(name, str) or not name.strip():
            raise InputError(f"{path}: an entry that is no name; expected {wanted}")
    known: dict[str, str] = {}
    for folder, name in entries:
        if folder is not None and known.setdefault(folder, name) != name:
            raise InputError(f"{path}: {shown(folder)} has two names; expected {wanted}")
    if not known:
        if len(entries) != len(folders) or (isinstance(table, dict) and set(table) != set(map(str, range(len(table))))):
            raise InputError(
                f"{path}: {len(entries)} entries, none with its folder, for {len(folders)} folders; expected {wanted}"
            )
        values = [table[str(number)] for number in range(len(table))] if isinstance(table, dict) else table
        return [" ".join(name.replace("_", " ").split()) for name in values]
    for folder in folders:
        if folder not in known:
            raise InputError(f"{path}: names {len(known)} folders, but not {folder}; expected {wanted}")
    return [" ".join(known[folder].replace("_", " ").split()) for folder in folders]


def digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def expect_folders(where: Path, folders: Sequence[str]) -> None:
    """Refuse folders whose order is not that of the names, as that of folders called 0 to 999 is not."""
    expected = FACTS["imagenet"]["folders_sha256"]
    if digest(folders) != expected:
        odd = next((name for name in folders if not WORDNET.fullmatch(name)), None)
        what = f"folder {shown(odd)} is no WordNet number" if odd else "not the folders of ImageNet's 1000 classes"
        raise InputError(
            f"{where}: {what}; expected n01440764 to n15075141 (SHA-256 of the sorted names {expected}, "
            f"found {digest(folders)})"
        )


def expect_clips_names(path: Path, names: Sequence[str], folders: Sequence[str]) -> None:
    """Refuse other names than CLIP's, with which the papers make the control task's head: others are another head."""
    known = FACTS["imagenet"]
    if digest(names) == known["names_sha256"]:
        return
    checks = known["name_checks"].split()
    other = [row for row, (name, check) in enumerate(zip(names, checks, strict=True)) if digest([name])[:4] != check]
    which = ""
    if other:
        first = other[0]
        what = f"{names[first]!a:.80}, name {first + 1} ({folders[first]})"
        which = f"{what}, is the first of {len(other)} that are not CLIP's; "
    raise InputError(
        f"{path}: {which}expected imagenet_classes of CLIP's notebook Prompt_Engineering_for_ImageNet "
        f"(SHA-256 of the lines {known['names_sha256']}, found {digest(names)})"
    )
