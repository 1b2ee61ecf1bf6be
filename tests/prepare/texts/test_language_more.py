# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The further language tasks: what packages hold is read as it is meant, from small copies of their formats."""

import gzip
import os
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import experiments
import pytest

from errors import InputError
from texts import language
from texts import language_more as more
from texts import language_sources as sources

TASKS = language.facts()["tasks"] | language.further_tasks()


def test_twenty_four_tasks_all_of_which_the_experiment_runs() -> None:
    groups = Counter(task["group"] for task in TASKS.values())
    assert groups == {"sentiment": 8, "definitions": 4, "topics": 6, "books": 3, "pairs": 3}
    data = experiments.read(experiments.JOBS / "papers" / "language" / "many.toml")["data"]
    assert sorted(data["tasks"]) == sorted(TASKS)
    pairs = [pair.split("+") for pair in data["pairs"]]
    assert {len({TASKS[name]["group"] for name in pair}) for pair in pairs} == {1, 2}  # within and across


def test_every_class_of_a_task_that_reads_books_has_its_kind() -> None:
    for task in TASKS.values():
        if task["read"] == "bible":
            books = [book for ranges in task["books"].values() for a, b in ranges for book in range(a, b + 1)]
            assert sorted(books) == list(range(66))
            assert {match for _, match, _ in task["classes"]} == set(task["books"])


NOUNS = """\
00000010 03 n 01 pawn 0 002 @ 00000030 n 0000 ;c 00000030 n 0000 | (chess) (games) the least piece of a set
00000020 03 n 01 rook 0 001 ;c 00000030 n 0000 | a piece that moves in straight lines
00000030 03 n 01 chess 0 000 | a board game for two players
"""


@pytest.fixture
def nouns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for pos in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"data.{pos}").write_text(NOUNS if pos == "noun" else "")
    monkeypatch.setattr(sources, "WORDNET", tmp_path)
    sources.wordnet.cache_clear()
    yield tmp_path
    sources.wordnet.cache_clear()


def test_a_gloss_does_not_name_its_topic(nouns: Path) -> None:
    texts = more.wn_topic(nouns, {})
    assert list(zip(texts.first, texts.labels, texts.keys, strict=True)) == [
        ("the least piece of a set", "00000030", "pawn"),
        ("a piece that moves in straight lines", "00000030", "rook"),
    ]


def test_glosses_of_others_are_of_one_file(nouns: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chance is the digest of a noun's place: 0 asks for another's gloss, the first of the file; 6 for its own."""
    chance = {"10": 6, "20": 0, "30": 1}  # a sixth of all nouns is taken: not the third
    monkeypatch.setattr(more, "stable_hash", lambda text: chance[text.rsplit("/", 1)[1]])
    texts = more.wn_defmatch(nouns, {})
    assert list(zip(texts.first, texts.labels, texts.second, strict=True)) == [
        ("The word pawn.", "yes", "It means: (chess) (games) the least piece of a set"),
        ("The word rook.", "no", "It means: (chess) (games) the least piece of a set"),
    ]


GCIDE = """\
Aback \\A*back"\\, adv.
   1. Toward the back or rear; backward. "They drew aback."
      --Knolles. [Obs.]

   2. (Naut.) Backward against the {mast}; -- said of sails.
      [1913 Webster]

   3. Short. [Obs.]
"""


def test_obsolete_senses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gcide.dict.dz").write_bytes(gzip.compress(GCIDE.encode()))
    monkeypatch.setattr(sources, "DICTIONARIES", tmp_path)
    sources.dictionary.cache_clear()
    texts = more.gcide_obsolete(tmp_path, {})
    sources.dictionary.cache_clear()
    assert list(zip(texts.first, texts.labels, texts.keys, strict=True)) == [
        ("Toward the back or rear; backward.", "obsolete", "aback"),
        ("Backward against the mast;", "current", "aback"),
    ]


def test_fortunes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Eat, drink and be merry.\n\t\t-- Someone\n%\nToo short\n%\nA watched pot\nnever boils.\n"
    (tmp_path / "food").write_text(text)
    monkeypatch.setattr(more, "FORTUNES", tmp_path)
    texts = more.fortune_topic(tmp_path, {"classes": [["food", "food", "food"]]})
    assert texts.first == ["Eat, drink and be merry. -- Someone", "A watched pot never boils."]
    assert set(texts.labels) == {"food"}
    with pytest.raises(InputError, match="fortunes"):
        more.fortune_topic(tmp_path, {"classes": [["law", "law", "law"]]})


def r_database(vectors: list[list[str]]) -> bytes:
    """Writes strings as R's saveRDS() does, version 3, each vector behind its length."""
    held = b""
    for strings in vectors:
        data = b"X\n" + struct.pack(">iii", 3, 0x040200, 0x030500) + struct.pack(">i", 5) + b"UTF-8"
        data += struct.pack(">ii", 16, len(strings))
        for text in strings:
            data += struct.pack(">ii", 0x00040009, len(text.encode())) + text.encode()
        held += struct.pack(">I", len(data)) + zlib.compress(data)
    return held


def test_novels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "Rdata.rdb"
    long = ["It is a truth universally acknowledged, that a single man in", "possession of a good fortune, " * 3]
    path.write_bytes(
        r_database(
            [
                [
                    "EMMA",
                    "",
                    "A foreword " * 30,
                    "",
                    "VOLUME I",
                    "",
                    "CHAPTER I",
                    *long,
                    "",
                    "Short.",
                    "",
                    "Chapter 2",
                    *long,
                ],
                ["Persuasion", "", "Chapter 1", "", "Sir Walter Elliot, « of Kellynch » " * 20],
            ]
        )
    )
    monkeypatch.setattr(more, "NOVELS", path)
    texts = more.austen_novel(tmp_path, {})
    assert list(zip(texts.labels, texts.keys, strict=True)) == [
        ("Emma", "Emma 1"),
        ("Emma", "Emma 2"),
        ("Persuasion", "Persuasion 1"),
    ]
    assert texts.first[0] == texts.first[1] == " ".join(long).strip()
    assert len(texts.first[2].split()) == sources.WORDS_MOST and "«" in texts.first[2]
    path.write_bytes(r_database([["x"]])[:4] + zlib.compress(b"X\n" + bytes(40)))
    with pytest.raises(InputError, match="vectors of strings"):
        more.austen_novel(tmp_path, {})


def test_verses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bible"
    names = [f"{'1' * (book % 2)}B{chr(97 + book // 26)}{chr(97 + book % 26)}" for book in range(66)]
    lines = [f"{name}{chapter}:1 In the beginning of chapter {chapter}" for name in names for chapter in (1, 2)]
    printed = "\n".join(lines)
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\n")
    os.chmod(program, 0o755)
    monkeypatch.setattr(more, "BIBLE", program)
    texts = more.bible(tmp_path, TASKS["bible_testament"])
    assert Counter(texts.labels) == {"old": 2 * 39, "new": 2 * 27}
    assert texts.keys[:3] == [f"{names[0]} 1", f"{names[0]} 2", f"{names[1]} 1"]
    assert texts.first[1] == "In the beginning of chapter 2"
    program.write_text("#!/bin/sh\necho 'Ge1:1 In the beginning'\n")
    with pytest.raises(InputError, match="1 books; expected 66"):
        more.bible(tmp_path, TASKS["bible_testament"])
