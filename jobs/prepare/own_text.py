# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The user's own texts to the packed file: columns, label sentences, a model."""

import argparse
from pathlib import Path

import minilm
from errors import InputError, shown
from own import check_task, name_of
from pack_texts import Choice, Class, pack, write
from splits import SPLIT_NAMES
from text_model import TextModel
from texts import Columns, lines_of, read_texts

TEMPLATE = "This text is about {}."


def classes_of(options: argparse.Namespace, labels: list[str]) -> list[Class]:
    """Of --classes, a line a class: the label, a tab, the class's name, and perhaps another tab and its sentence;
    without it, every label that there is, as its own name."""
    templates = options.template or [TEMPLATE]
    for template in templates:
        if "{}" not in template:
            raise InputError(f'--template "{template}": no {{}}; expected a place for the class')
    if options.classes is None:
        if len(labels) < 2:
            raise InputError(f"{options.input}: {len(labels)} labels; expected at least two")
        return [Class(each, each, [t.replace("{}", each.replace("_", " ")) for t in templates]) for each in labels]
    path = options.classes
    found: dict[str, Class] = {}
    for number, line in enumerate(lines_of(path).read().splitlines(), 1):
        if not line:
            continue
        row = line.split("\t")
        if not 2 <= len(row) <= 3 or not all(each.strip() for each in row):
            raise InputError(f"{path}:{number}: expected label, tab, name, and perhaps tab, sentence")
        label, name, *sentence = (each.strip() for each in row)
        if label in found and name != found[label].name:
            raise InputError(f"{path}:{number}: {shown(label)} has two names; expected one")
        one = found.setdefault(label, Class(name, label, []))
        one.sentences += sentence or [t.replace("{}", name) for t in templates]
    if len(found) < 2:
        raise InputError(f"{path}: {len(found)} classes; expected at least two")
    if lacking := set(found) - set(labels):
        raise InputError(f"{path}: no text has the label {shown(min(lacking))}; expected one at least")
    if lacking := set(labels) - set(found):
        raise InputError(f"{path}: the label {shown(min(lacking))} is not there; expected every label of the texts")
    return list(found.values())


def prepare(options: argparse.Namespace) -> str:
    """Read, split, tokenise and write; gives a line that says what was written."""
    task = options.task or name_of(options.input.with_name(options.input.name.removesuffix(".gz")))
    check_task(task)
    for name in ("per_class", "validation", "test"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')} {value}: expected 1 or more")
    columns = Columns(options.text, options.label, options.second or "", options.group or "")
    texts = read_texts(options.input, columns)
    model = TextModel(options.model) if options.model is not None else minilm.text_model()
    choice = Choice(options.tokens, options.per_class, options.validation, options.test)
    packed = pack(
        task,
        texts,
        classes_of(options, sorted(set(texts.labels))),
        model,
        choice,
        seed=f"{task}/{options.seed}",
        source=options.source or options.input.name,
        license=options.license,
    )
    path: Path = options.out / f"{task}.h5"
    write(packed, path)
    counts = ", ".join(f"{len(packed.labels[each])} {each}" for each in SPLIT_NAMES)
    return f"{path}: {len(packed.classes)} classes; {counts}; {packed.truncated} texts cut to {options.tokens} tokens"
