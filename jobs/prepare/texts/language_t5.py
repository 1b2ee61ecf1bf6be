# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Texts for a small T5 that is trained here: six of the default language tasks, answered by the class' name, four
others together to pre-train it on, and a tokenizer of these texts' words beside models/t5_mini's configuration."""

import hashlib
import json
import re
import shutil
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from packed import COUNTS_TITLE, Say, already_built, code
from texts.language import CHOICE, CODE, SOURCES, facts, resolved, summary
from texts.language_sources import Texts
from texts.model import TextModel
from texts.pack import Choice, Class, pack, write
from texts.prompts import parse

CONFIG = Path(__file__).parents[3] / "models/t5_mini/config.json"
TASKS = ("wn_noun_supersense", "wn_verb_supersense", "gcide_field", "foldoc_topic", "newsgroups20", "tweet_airline")
START = ("wn_pos", "tweet_apple", "vader_movie", "vader_amazon")
PROMPT = parse("{task} : {text}", "prompt", mask=False)
TOKENS, PER_CLASS = 24, 500
SPECIAL = ("<pad>", "</s>", "<unk>")  # T5's first three


def words_of(text: str) -> list[str]:
    """Cuts a text into words as the tokenizer does."""
    return re.findall(r"\w+|[^\w\s]+", text.lower())


def answer(name: str) -> str:
    """Words alone, which the tokenizer leaves as they are."""
    return " ".join(re.findall(r"\w+", name.lower()))


def with_parts(name: str, texts: Texts) -> Texts:
    """What stands in the prompt's columns: the task's name and the text."""
    texts.parts = [(answer(name.replace("_", " ")), text) for text in texts.first]
    return texts


class Read:
    """Texts of the tasks by name, each read once."""

    def __init__(self, packages: Path) -> None:
        self.table, self.packages = facts(), packages
        self.texts = cache(self._texts)

    def task(self, name: str) -> dict[str, Any]:
        return resolved(self.table["tasks"][name])

    def _texts(self, name: str) -> Texts:
        task = self.task(name)
        return with_parts(name, SOURCES[task["read"]](self.packages, task))

    def classes(self, name: str) -> list[Class]:
        return [Class(name, match, [], answer(name)) for name, match, _ in self.task(name)["classes"]]


def start_texts(read: Read) -> tuple[Texts, list[Class]]:
    """The texts of START as one task, whose labels are the answers: of equal answers of two tasks, one class."""
    words = list(dict.fromkeys(each.word for name in START for each in read.classes(name)))
    joined = Texts([], [], [], [], None, [])
    for name in START:
        texts, word = read.texts(name), {each.match: each.word for each in read.classes(name)}
        for row, label in enumerate(texts.labels):
            if label in word:
                joined.first.append(texts.first[row])
                joined.labels.append(word[label])
                joined.keys.append(f"{name}/{texts.keys[row]}")
                joined.parts.append(texts.parts[row])
    return joined, [Class(word, word, [], word) for word in words]


def write_model(read: Read, folder: Path) -> TextModel:
    """The configuration, and a tokenizer of the commonest words of all texts, answers and tasks' names before them."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    names = (*TASKS, *START)
    needed = [":"] + [word for name in names for word in answer(name.replace("_", " ")).split()]
    needed += [word for name in names for each in read.classes(name) for word in each.word.split()]
    counts = Counter(word for name in names for text in read.texts(name).first for word in words_of(text))
    common = sorted(counts, key=lambda word: (-counts[word], word))
    size = json.loads(CONFIG.read_text("utf-8"))["vocab_size"]
    vocabulary = list(dict.fromkeys([*SPECIAL, *needed, *common]))[:size]
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(vocabulary)}, unk_token="<unk>"))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(CONFIG, folder / "config.json")
    tokenizer.save(str(folder / "tokenizer.json"))
    return TextModel(folder)


def digest(name: str) -> str:
    """The digest of the code, the tables and the model's sizes that make this task: equal digests mean equal files."""
    written_by = code((*CODE, "texts/language_t5.py", "texts/answers.py"))
    return hashlib.sha256(name.encode() + CONFIG.read_bytes() + written_by).hexdigest()


def prepare(out: Path, packages: Path, say: Say) -> None:
    """Writes OUT/model, OUT/start.h5 and a file a task, unless all of them are there, of this code."""
    names = ("start", *TASKS)
    there = (out / "model/tokenizer.json").is_file()
    say(COUNTS_TITLE)
    if there and all(already_built(out / f"{name}.h5", digest(name)) for name in names):
        for name in names:
            say(f"{summary(out / f'{name}.h5')} (unchanged)")
        return
    read = Read(packages)
    model = write_model(read, out / "model")
    choice = Choice(TOKENS, PER_CLASS, CHOICE.validation, CHOICE.test)
    for name in names:
        if name == "start":
            texts, classes = start_texts(read)
            declared = [read.task(each) for each in START]
            title = "All texts of " + ", ".join(START)
        else:
            texts, classes, declared = read.texts(name), read.classes(name), [read.task(name)]
            title = declared[0]["title"]
        about = {key: "; ".join(dict.fromkeys(task[key] for task in declared)) for key in ("source", "license")}
        about |= {"title": title, "built_from": digest(name)}
        packed = pack(name, texts, classes, model, choice, seed=name, prompt=PROMPT, **about)
        write(packed, out / f"{name}.h5")
        say(packed.summary())
