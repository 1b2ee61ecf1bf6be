# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The user's own texts to the packed file: columns, label sentences, a model."""

import argparse
from collections.abc import Collection
from pathlib import Path

from errors import InputError, shown
from packed import check_task, name_of
from splits import SPLIT_NAMES
from texts import minilm
from texts.chat import in_chat
from texts.model import TextModel
from texts.new_tokens import unknown_words, with_new_tokens
from texts.pack import Choice, Class, pack, write
from texts.prompts import Prompt, parse
from texts.read import Columns, lines_of, read_texts
from walk import closing

TEMPLATE = "This text is about {}."


def listed_classes(options: argparse.Namespace) -> dict[str, Class]:
    """Reads --classes, which has a line a class: the label, a tab, the class's name, and perhaps another tab and its
    sentence. Gives the classes by their labels."""
    path, classes = options.classes, {}
    for number, line in enumerate(lines_of(path).read().splitlines(), 1):
        if not line:
            continue
        row = line.split("\t")
        if not 2 <= len(row) <= 3 or not all(cell.strip() for cell in row):
            raise InputError(f"{path}:{number}: expected label, tab, name, and perhaps tab, sentence")
        if options.prompt is not None and len(row) > 2:
            raise InputError(f"{path}:{number}: has a sentence, of no use to --prompt; expected label, tab, name")
        label, name, *sentence = (cell.strip() for cell in row)
        if label in classes and name != classes[label].name:
            raise InputError(f"{path}:{number}: {shown(label)} has two names; expected one")
        entry = classes.setdefault(label, Class(name, label, []))
        entry.sentences += sentence or [template.replace("{}", name) for template in templates_of(options)]
    if len(classes) < 2:
        raise InputError(f"{path}: {len(classes)} classes; expected at least two")
    return classes


def templates_of(options: argparse.Namespace) -> list[str]:
    templates: list[str] = options.template or [TEMPLATE]
    for template in templates:
        if "{}" not in template:
            raise InputError(f'--template "{template}": no {{}}; expected a place for the class')
    return templates


def classes_of(options: argparse.Namespace, listed: dict[str, Class], labels: list[str]) -> list[Class]:
    """Gives the classes that --classes lists, or without it a class for each label, which is its own name."""
    if not listed:
        if len(labels) < 2:
            raise InputError(f"{options.input}: {len(labels)} labels; expected at least two")
        templates = templates_of(options)
        return [Class(label, label, [t.replace("{}", label.replace("_", " ")) for t in templates]) for label in labels]
    if lacking := set(listed) - set(labels):
        raise InputError(f"{options.classes}: no text has the label {shown(min(lacking))}; expected one at least")
    if lacking := set(labels) - set(listed):
        raise InputError(
            f"{options.classes}: the label {shown(min(lacking))} is not there; expected every label of the texts"
        )
    return list(listed.values())


def give_words(classes: list[Class], given: list[str]) -> None:
    """Gives classes the words of --words CLASS=WORD …; a class that is not named there is its own word."""
    words: dict[str, str] = {}
    for entry in given:
        name, separator, word = entry.rpartition("=")
        if not separator or not name.strip() or not word.strip():
            raise InputError(f'--words "{entry}": expected CLASS=WORD')
        if name.strip() in words:
            raise InputError(f'--words "{entry}": {name.strip()} has a word already; expected one a class')
        words[name.strip()] = word.strip()
    names = [each.name for each in classes]
    if strange := sorted(set(words) - set(names)):
        raise InputError(f"--words {strange[0]}=…: no such class; expected some of {shown(', '.join(names))}")
    if words and (without := [name for name in names if name not in words]):
        raise InputError(f"--words: the class {shown(without[0])} has no word; expected CLASS=WORD for each")
    for each in classes:
        each.word = words.get(each.name, each.name)


def prompt_of(options: argparse.Namespace, model: TextModel) -> Prompt | None:
    """That of --prompt. A masked language model, a T5 or a decoder needs one, and what else a prompt excludes is
    refused."""
    if options.prompt is None:
        for name in ("words", "new_tokens", "chat"):
            if getattr(options, name):
                raise InputError(f"--{name.replace('_', '-')}: belongs to --prompt; expected it too")
        if model.masked_lm:
            raise InputError(
                f"{model.folder}: is a masked language model; expected --prompt with a {{mask}}, or a "
                "modules.json beside it that says how its tokens are pooled"
            )
        if model.answers_behind:
            raise InputError(f"{model.folder}: is {model.called}; expected --prompt, and --words that it answers")
        return None
    if not model.prompted:
        raise InputError(
            f"{model.folder / 'config.json'}: is no masked language model, T5 or decoder, which --prompt needs; "
            "expected architectures to name one (BertForMaskedLM, RobertaForMaskedLM) and no modules.json"
        )
    if options.template:
        raise InputError("--template: is of label sentences; expected --words beside --prompt")
    if model.answers_behind and options.new_tokens is not None:
        raise InputError(f"--new-tokens: belongs to a masked language model; {model.folder} is none")
    if options.chat and not model.is_decoder:
        raise InputError(f"--chat: belongs to a decoder; {model.folder} is {model.called}")
    template = options.prompt.replace("\\n", "\n") if model.is_decoder else options.prompt
    prompt = parse(template, "--prompt", mask=not model.answers_behind)
    if options.chat:
        return in_chat(prompt, model.folder)
    return prompt


def columns_of(options: argparse.Namespace, prompt: Prompt | None, classes: Collection[str]) -> Columns:
    """A prompt names its columns; {text} and {second} are those of --text and --second. `classes` are the labels that
    --classes lists."""
    columns = Columns(
        options.text,
        options.label,
        options.second or "",
        options.group or "",
        drop_unlabelled=options.drop_unlabelled,
        classes=frozenset(classes),
    )
    if prompt is None:
        return columns
    if "second" in prompt.columns and not options.second:
        raise InputError("--prompt: {second} is a second text; expected --second COLUMN")
    if options.second and "second" not in prompt.columns:
        raise InputError("--second: the prompt has no {second}; expected it there")
    named = {"text": options.text, "second": options.second}
    columns.parts = tuple((named.get(column) or column, column in prompt.optional) for column in prompt.columns)
    return columns


def prepare(options: argparse.Namespace) -> str:
    """Read, split, tokenise and write; gives a line that says what was written."""
    task = options.task or name_of(options.input.with_name(options.input.name.removesuffix(".gz")))
    check_task(task)
    for name in ("per_class", "validation", "test"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')} {value}: expected 1 or more")
    model = TextModel(options.model) if options.model is not None else minilm.text_model()
    prompt = prompt_of(options, model)
    listed = listed_classes(options) if options.classes is not None else {}
    texts = read_texts(options.input, columns_of(options, prompt, listed))
    classes = classes_of(options, listed, sorted(set(texts.labels)))
    added = ""
    if prompt is not None:
        give_words(classes, options.words or [])
        if options.new_tokens is not None:
            words = [each.word for each in classes]
            new = unknown_words(model, words)
            model = with_new_tokens(model, words, options.new_tokens)
            added = f"; new tokens in {options.new_tokens}: {', '.join(new)}" if new else "; no new token is needed"
    choice = Choice(
        options.tokens, options.per_class, options.validation, options.test, options.answers, score=options.score
    )
    packed = pack(
        task,
        texts,
        classes,
        model,
        choice,
        seed=f"{task}/{options.seed}",
        prompt=prompt,
        source=options.source or shown(options.input.name),
        license=options.license,
    )
    path: Path = options.out / f"{task}.h5"
    write(packed, path, options.replace)
    counts = ", ".join(f"{len(packed.labels[split])} {split}" for split in SPLIT_NAMES)
    cut = f"{packed.truncated} texts cut to {options.tokens} tokens"
    return f"{path}: {len(packed.classes)} classes; {counts}; {cut}{added}{closing(texts.left_out)}"
