# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The texts of the further language tasks of language_more.toml: more of WordNet and Webster, fortunes, Jane Austen's
novels, the King James Bible."""

import re
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from errors import InputError, need_package
from splits import stable_hash
from texts.language_sources import WORDS_LEAST, WORDS_MOST, Texts, dictionary, entries, letters, plain, wordnet

LISTED = "debian-language-all.txt"
FORTUNES = Path("/usr/share/games/fortunes")
NOVELS = Path("/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb")
BIBLE = Path("/usr/bin/bible")
PASSAGE_LEAST = 20  # words

# WordNet and Webster


def wn_topic(_folder: Path, _task: dict[str, Any]) -> Texts:
    """The field of a synset is the label. Some glosses begin with it, "(law)": that is cut off."""
    out = Texts()
    for pos in ("noun", "verb", "adj", "adv"):
        for synset in wordnet(pos).values():
            text = re.sub(r"^(\([^)]*\)\s*)+", "", synset.definition)
            if len(synset.topics) == 1 and len(text.split()) >= WORDS_LEAST:
                out.add(text, f"{synset.topics[0]:08}", synset.lemmas[0].lower())
    return out


def wn_defmatch(_folder: Path, _task: dict[str, Any]) -> Texts:
    """A noun, and its gloss or that of another noun of the same lexicographer's file. The pairs are ours."""
    synsets = wordnet("noun")
    of_file: dict[int, list[int]] = {}
    for offset, synset in synsets.items():
        of_file.setdefault(synset.lexname, []).append(offset)
    out = Texts()
    for offset, synset in synsets.items():
        chance = stable_hash(f"wn_defmatch/{offset}")
        if chance % 6:
            continue  # a sixth is more than enough
        true = chance // 6 % 2
        others = of_file[synset.lexname]
        other = synsets[offset if true else others[chance // 12 % len(others)]]
        lemma = synset.lemmas[0].lower()
        ambiguous = set(synset.lemmas) & set(other.lemmas) and not true  # two senses of one noun
        if ambiguous or lemma in other.definition.lower() or len(other.definition.split()) < WORDS_LEAST:
            continue
        out.add(f"The word {synset.lemmas[0]}.", "yes" if true else "no", lemma, f"It means: {other.definition}")
    return out


def gcide_obsolete(_folder: Path, _task: dict[str, Any]) -> Texts:
    """Numbered senses: whether Webster marks the sense as obsolete. Marks, quotations and fields are cut off."""
    out = Texts()
    for head, body in entries(dictionary("gcide", "dict-gcide")):
        for sense in re.split(r"\n\s+\d+\. ", f"\n{body}")[1:]:
            text = re.split(r'\[|"|\s--|\n\s*\n', re.sub(r"^(\s*\([^)]*\)\s*)+", "", sense))[0]
            text = plain(re.sub(r"[{}]", "", text))
            if len(text.split()) >= WORDS_LEAST + 1:
                key = head.split("\\")[0].strip().lower() or head.lower()
                out.add(text, "obsolete" if "[Obs." in sense else "current", key)
    return out


# Books


def fortune_topic(_folder: Path, task: dict[str, Any]) -> Texts:
    """A file of fortunes is a topic. Those that stand in two files are left out where labels are contradicted."""
    out = Texts()
    for _, name, _ in task["classes"]:
        path = need_package(FORTUNES / name, "fortunes", LISTED)
        for fortune in path.read_text("utf-8", "replace").split("\n%\n"):
            text = " ".join(plain(re.sub(r".\x08", "", fortune)).split()[:WORDS_MOST])
            if len(text.split()) >= WORDS_LEAST + 1 and len(letters(text)) >= 10:
                out.add(text, name, letters(text))
    return out


def r_objects(held: bytes) -> Iterator[list[str]]:
    """The vectors of strings of an R database: each a length of four bytes, then a zlib stream of R's serialisation,
    version 3 (R Internals, 1.8)."""
    while held:
        stream = zlib.decompressobj()
        yield r_strings(stream.decompress(held[4:]))
        held = stream.unused_data


def r_strings(data: bytes) -> list[str]:
    def number(at: int) -> int:
        return int.from_bytes(data[at : at + 4], "big", signed=True)

    at = 18 + number(14) if number(2) == 3 else 14  # behind the name of the encoding
    if not data.startswith(b"X\n") or number(at) & 0xFF != 16:
        raise InputError(f"{NOVELS}: holds another kind of object; expected vectors of strings")
    strings, at = [], at + 8
    for _ in range(number(at - 4)):
        length = max(0, number(at + 4))  # −1: NA
        strings.append(data[at + 8 : at + 8 + length].decode("utf-8"))
        at += 8 + length
    return strings


def austen_novel(_folder: Path, _task: dict[str, Any]) -> Texts:
    """Paragraphs of novels whose first line is the title. Their characters' names give most away."""
    out = Texts()
    for lines in r_objects(need_package(NOVELS, "r-cran-janeaustenr", LISTED).read_bytes()):
        title, chapter, paragraph = lines[0].title(), 0, []
        for line in [*lines[1:], ""]:
            if re.match(r"chapter\b", line, re.IGNORECASE):
                chapter += 1
            elif line.strip():
                paragraph.append(line)
                continue
            words = " ".join(paragraph).split()
            paragraph = []
            if chapter and len(words) >= PASSAGE_LEAST:
                out.add(" ".join(words[:WORDS_MOST]), title, f"{title} {chapter}")
    return out


def verses() -> Iterator[tuple[int, str, str]]:
    """The number of the book, 0 to 65, the chapter, and the verse, as the program prints them."""
    program = need_package(BIBLE, "bible-kjv", LISTED)
    command = [program, "-f", "-l1000", "Gen1:1-Rev22:21"]
    printed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout.decode()
    books: dict[str, int] = {}
    for line in printed.splitlines():
        verse = re.match(r"(\d?[A-Za-z]+)(\d+):\d+ (.+)", line)
        if verse is not None:
            yield books.setdefault(verse[1], len(books)), f"{verse[1]} {verse[2]}", plain(verse[3])
    if len(books) != 66:
        raise InputError(f"{program}: prints {len(books)} books; expected 66")


def bible(_folder: Path, task: dict[str, Any]) -> Texts:
    """Verses by the kind of their book: `books` holds each kind's first and last, numbered as they stand."""
    kinds = {book: kind for kind, ranges in task["books"].items() for a, b in ranges for book in range(a, b + 1)}
    out = Texts()
    for book, chapter, text in verses():
        if len(text.split()) >= WORDS_LEAST + 1:
            out.add(text, kinds[book], chapter)
    return out


SOURCES: dict[str, Callable[[Path, dict[str, Any]], Texts]] = {
    "wn_topic": wn_topic,
    "wn_defmatch": wn_defmatch,
    "gcide_obsolete": gcide_obsolete,
    "fortune_topic": fortune_topic,
    "austen_novel": austen_novel,
    "bible": bible,
}
