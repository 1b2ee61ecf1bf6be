# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The default language: MiniLM and twelve tasks in four groups, from packages, as language.toml declares them; with
language_more.toml twelve further ones."""

import hashlib
import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import h5py

from errors import InputError
from packed import COUNTS_TITLE, Say, already_built, code, counts_line
from splits import SPLIT_NAMES
from texts import language_more, language_sources, minilm
from texts.pack import Choice, Class, pack, write

HERE = Path(__file__).parent
SOURCES = language_sources.SOURCES | language_more.SOURCES
CODE = ("texts/language.py", "texts/language.toml", "texts/language_sources.py", "texts/pack.py", "packed.py")
CODE += ("splits.py", "texts/minilm.py", "texts/prompts.py", "texts/model.py")
MORE = ("texts/language_more.py", "texts/language_more.toml")
CHOICE = Choice(tokens=32, per_class=64, validation=128, test=256)


def facts() -> dict[str, Any]:
    return tomllib.loads((HERE / "language.toml").read_text("utf-8"))


def further_tasks() -> dict[str, Any]:
    return dict(tomllib.loads((HERE / "language_more.toml").read_text("utf-8"))["tasks"])


def controls() -> dict[str, Any]:
    """Tasks that have the texts of another one."""
    table = facts()
    return {name: table["tasks"][control["of"]] | control for name, control in table["controls"].items()}


def resolved(task: dict[str, Any]) -> dict[str, Any]:
    """A task's declaration with what its source needs: the archive's facts, the labels that it looks for."""
    task = dict(task)
    if "archive" in task:
        task["archive"] = facts()["archives"][task["archive"]]
    if task["read"] == "gcide_field":
        task["labels"] = [match for _, match, _ in task["classes"]]
    return task


def classes_of(task: dict[str, Any]) -> list[Class]:
    template = task.get("template", "{}")
    return [Class(name, match, [template.replace("{}", words)]) for name, match, words in task["classes"]]


def built_from(name: str) -> str:
    """The digest of the code, the tables and the model that make this task: equal digests mean equal files."""
    written_by = code(CODE + (MORE if name in further_tasks() else ()))
    return hashlib.sha256(name.encode() + written_by + model_digest()).hexdigest()


@cache
def model_digest() -> bytes:
    """The digest of the tokenizer and the weights that make tokens and heads."""
    digest = hashlib.sha256()
    for path in sorted(minilm.model_folder().rglob("*")):
        if path.is_file():
            digest.update(path.name.encode() + path.read_bytes())
    return digest.digest()


def link_model(out: Path) -> None:
    """OUT/minilm leads to the package's folder, wherever Python has put it."""
    link, target = out / "minilm", minilm.model_folder()
    out.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and os.readlink(link) == str(target):
        return
    if link.exists() and not link.is_symlink():
        raise InputError(f"{link}: is there already; expected a link to {target}, or nothing")
    part = out / f".minilm.{os.getpid()}.part"
    part.symlink_to(target)
    os.replace(part, link)


def prepare(out: Path, packages: Path, only: list[str], every: bool, say: Say) -> None:
    """Builds the twelve tasks and their controls, or those in `only`, or `every` one, into `out`/TASK.h5, and links the
    model there."""
    table = facts()
    usual = table["tasks"] | controls()
    tasks = usual | further_tasks()
    for name in only:
        if name not in tasks:
            raise InputError(f"task {name}: not known; expected some of {', '.join(tasks)}")
    link_model(out)
    model = minilm.text_model()
    say(COUNTS_TITLE)
    for name in only or (tasks if every else usual):
        path = out / f"{name}.h5"
        if already_built(path, built_from(name)):
            say(f"{summary(path)} (unchanged)")
            continue
        task = resolved(tasks[name])
        classes = classes_of(task)
        about = {key: task[key] for key in ("source", "license", "title", "label", "group", "split_rule")}
        about["derived"] = "yes" if task["derived"] else "no"
        texts = SOURCES[task["read"]](packages, task)
        about["built_from"] = built_from(name)
        packed = pack(name, texts, classes, model, CHOICE, seed=task.get("of", name), **about)
        write(packed, path)
        say(packed.summary())


def summary(path: Path) -> str:
    with h5py.File(path) as file:
        counts = [len(file[f"{split}/lengths"]) for split in SPLIT_NAMES]
        return counts_line(path.stem, counts, len(file.get("class_names", [])))
