# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Users' own texts through the command line: tokens, splits, heads, and what bad input says."""

import csv
import gzip
import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import tokenizer_fuzz
import torch
from text_models import WORDS, write_text_model
from transformers import BertModel

from command import main
from splits import SPLIT_NAMES
from texts.model import TextModel, fingerprint

SPECIAL = 5  # tokens before the words


def sentence(rng: np.random.Generator, positive: bool, words: int = 6) -> str:
    middle = rng.choice([word for word in WORDS if word not in ("good", "bad")], words)
    return " ".join(["good" if positive else "bad", *middle])


def table(count: int = 200, seed: int = 0) -> list[dict[str, str]]:
    """Texts of two labels in forty documents, each text once."""
    rng = np.random.default_rng(seed)
    rows = [(bool(i % 2), i // 5) for i in range(count)]
    return [
        {"mood": "pos" if label else "neg", "text": f"{sentence(rng, label)} {i}", "document": f"d{document}",
         "other": sentence(rng, label, 3)}
        for i, (label, document) in enumerate(rows)
    ]  # fmt: skip


def write_tsv(path: Path, rows: list[dict[str, str]], header: bool = True) -> Path:
    lines = [list(rows[0])] * header + [list(row.values()) for row in rows]
    text = "\n".join("\t".join(line) for line in lines) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def write_csv(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_jsonl(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    return path


def prepared(source: Path, model: Path, out: Path, *arguments: str) -> h5py.File:
    common = ["--label", "mood", "--model", str(model), "--tokens", "12", "--task", "mood", "--out", str(out)]
    assert main(["text", str(source), "--replace", *common, *arguments]) == 0
    return h5py.File(out / "mood.h5")


def words_of(file: h5py.File, split: str, row: int) -> list[str]:
    length = file[f"{split}/lengths"][row]
    ids = file[f"{split}/inputs"][row][:length]
    assert ids[0] == 2 and ids[-1] == 3 and not file[f"{split}/inputs"][row][length:].any()
    return [WORDS[i - SPECIAL] for i in ids if i >= SPECIAL]


@pytest.mark.parametrize("kind", ["tsv", "tsv.gz", "csv", "jsonl"])
def test_every_format_gives_the_same_file(tmp_path: Path, tiny_bert: Path, kind: str) -> None:
    rows = table()
    write = {"csv": write_csv, "jsonl": write_jsonl}.get(kind, write_tsv)
    with prepared(write(tmp_path / f"in.{kind}", rows), tiny_bert, tmp_path / "out") as file:
        assert file.attrs["modality"] == "text"
        assert file.attrs["tokenizer"] == fingerprint((tiny_bert / "tokenizer.json").read_bytes())
        assert [name.decode() for name in file["class_names"]] == ["neg", "pos"]
        counts = [len(file[f"{split}/labels"]) for split in SPLIT_NAMES]
        assert sum(counts) == 200 and counts == [144, 16, 40]
        for split in SPLIT_NAMES:
            assert file[f"{split}/inputs"].dtype == np.int32 and "types" not in file[split]
            for row, label in enumerate(file[f"{split}/labels"]):
                assert words_of(file, split, row)[0] == ("good" if label else "bad")


def test_columns_by_number(tmp_path: Path, tiny_bert: Path) -> None:
    source = write_tsv(tmp_path / "in.tsv", table(), header=False)
    arguments = ["text", str(source), "--label", "1", "--text", "2", "--model", str(tiny_bert), "--tokens", "12"]
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    with h5py.File(tmp_path / "in.h5") as file:
        assert sum(len(file[f"{split}/labels"]) for split in SPLIT_NAMES) == 200


def test_pairs_have_types_and_are_cut_where_they_are_long(
    tmp_path: Path, tiny_bert: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = table()
    with prepared(write_tsv(tmp_path / "in.tsv", rows), tiny_bert, tmp_path / "out", "--second", "other") as file:
        ids, types, lengths = (file[f"train/{name}"][()] for name in ("inputs", "types", "lengths"))
        for row, length in enumerate(lengths):
            ends = np.flatnonzero(ids[row] == 3)
            assert len(ends) == 2 and ends[1] == length - 1
            assert not types[row, : ends[0] + 1].any() and types[row, ends[0] + 1 : length].all()
            assert not types[row, length:].any()
        assert (lengths == 12).all() and file.attrs["truncated"] == 200  # 8 + 4 words and three special tokens
    assert "200 texts cut to 12 tokens" in capsys.readouterr().out


def test_groups_and_equal_texts_stay_in_one_split(tmp_path: Path, tiny_bert: Path) -> None:
    rows = table()
    rows += [{**row, "document": "copies"} for row in rows[:50]]
    with prepared(write_tsv(tmp_path / "in.tsv", rows), tiny_bert, tmp_path / "out", "--group", "document") as file:
        keys = [set(file[f"{split}/split_key"][()]) for split in SPLIT_NAMES]
        texts = [{tuple(row) for row in file[f"{split}/inputs"]} for split in SPLIT_NAMES]
    assert all(keys) and not keys[0] & keys[1] and not keys[0] & keys[2] and not keys[1] & keys[2]
    assert len(set.union(*keys)) == 31  # ten of the forty documents have copies, which are all in one group
    assert sum(map(len, texts)) >= 190  # numbers at a text's end are unknown words, so some look alike


def test_given_splits_stay_and_training_texts_of_the_test_are_left_out(tmp_path: Path, tiny_bert: Path) -> None:
    rows, folder = table(), tmp_path / "set"
    folder.mkdir()
    wrong = {**rows[3], "mood": "neg" if rows[3]["mood"] == "pos" else "pos"}  # a text under two labels
    write_tsv(folder / "train.tsv", rows[:120] + rows[150:160])
    write_tsv(folder / "dev.tsv", [*rows[120:150], wrong])
    write_tsv(folder / "test.tsv", rows[150:])
    with prepared(folder, tiny_bert, tmp_path / "out") as file:
        counts = {split: len(file[f"{split}/labels"]) for split in SPLIT_NAMES}
    assert counts == {"train": 119, "validation": 30, "test": 50}


def test_so_many_of_each_class_the_same_for_one_seed(tmp_path: Path, tiny_bert: Path) -> None:
    rows = [row for i, row in enumerate(table(300)) if row["mood"] == "pos" or i % 3 == 0]
    source = write_tsv(tmp_path / "in.tsv", rows)
    few = ["--per-class", "8", "--validation", "4", "--test", "10"]
    inputs = []
    for seed in ("0", "0", "1"):
        with prepared(source, tiny_bert, tmp_path / "out", *few, "--seed", seed) as file:
            for split, each in (("train", 8), ("validation", 2), ("test", 5)):
                assert np.bincount(file[f"{split}/labels"][()]).tolist() == [each, each]
            inputs.append(file["train/inputs"][()].tobytes())
    assert inputs[0] == inputs[1] != inputs[2]


@pytest.mark.parametrize("first_token", [False, True])
def test_the_head_is_what_the_model_makes_of_the_sentences(tmp_path: Path, first_token: bool) -> None:
    folder = write_text_model(tmp_path / "model", WORDS, first_token)
    classes = tmp_path / "classes.tsv"
    classes.write_text("neg\tsad\tthis is a bad text\nneg\tsad\tnot good\npos\tglad\n")
    arguments = ["--classes", str(classes), "--template", "about {}"]
    with prepared(write_tsv(tmp_path / "in.tsv", table()), folder, tmp_path / "out", *arguments) as file:
        head = file["head/weight"][()]
        assert [name.decode() for name in file["class_names"]] == ["sad", "glad"]
        assert file["head"].attrs["kind"] == "cosine" and file["head/weight"].attrs["logit_scale"] == 30
    model, tokenizer = BertModel.from_pretrained(folder).eval(), TextModel(folder).tokenizer

    def unit(text: str) -> np.ndarray:
        with torch.no_grad():
            h = model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0]
        z = (h[0] if first_token else h.mean(0)).numpy()
        return z / np.linalg.norm(z)

    sad = unit("this is a bad text") + unit("not good")
    np.testing.assert_allclose(head[0], sad / np.linalg.norm(sad), atol=1e-6)
    np.testing.assert_allclose(head[1], unit("about glad"), atol=1e-6)


def change(rows: list[dict[str, str]], row: int, **columns: str) -> list[dict[str, str]]:
    return [{**each, **columns} if i == row else each for i, each in enumerate(rows)]


def test_bad_input_gets_one_clear_line(
    tmp_path: Path, tiny_bert: Path, tiny_clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write_tsv(tmp_path / "good.tsv", table())
    (tmp_path / "ragged.tsv").write_text("mood\ttext\nneg\ta\tb\n")
    (tmp_path / "latin.tsv").write_bytes("mood\ttext\nneg\tcaf\u00e9\n".encode("latin-1"))
    (tmp_path / "no.jsonl").write_text('{"mood": "neg", "text": 3.5}\n')
    (tmp_path / "null.jsonl").write_text('{"mood": "neg", "text": null}\n')
    (tmp_path / "half.jsonl").write_text('{"mood": "neg", "te\n')
    (tmp_path / "none.tsv").write_text("mood\ttext\n")
    (tmp_path / "one.tsv").write_text("neg\tsad\n")
    (tmp_path / "strange.tsv").write_text("neg\tsad\npos\tglad\nmaybe\tmaybe\n")
    (tmp_path / "equal.tsv").write_text("neg\tglum\npos\tgleeful\n")  # both words are unknown
    (tmp_path / "empty_folder").mkdir()
    (tmp_path / "same.tsv").write_text("mood\ttext\tmood\nneg\ta\tpos\n")
    write_tsv(tmp_path / "alone.tsv", [row for row in table() if row["mood"] == "neg"])
    broken = bytearray(write_tsv(tmp_path / "broken.tsv.gz", table()).read_bytes())
    broken[10] = 0xFF  # no such kind of block
    (tmp_path / "broken.tsv.gz").write_bytes(broken)
    (tmp_path / "long.tsv").write_text("neg\t" + "x" * 200_000 + "\t\n")  # beyond what csv takes
    listed, unlisted = (write_text_model(tmp_path / name, WORDS) for name in ("listed", "unlisted"))
    (listed / "config.json").write_text("[]")
    (unlisted / "modules.json").write_text("{}")
    larger = write_text_model(tmp_path / "larger", WORDS, vocab_size=20)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text('{"model_type": "bert"}')
    cases: dict[str, tuple[list[str], str]] = {
        "empty text": ([str(write_tsv(tmp_path / "e.tsv", change(table(), 7, text=" ")))], "e.tsv:9: column"),
        "no token": ([str(write_tsv(tmp_path / "t.tsv", change(table(), 7, text="\u200b\u200b")))], "has no token"),
        "no such column": ([str(good), "--text", "words"], 'no column "words"; expected one of mood, text'),
        "ragged": ([str(tmp_path / "ragged.tsv")], "ragged.tsv:2: 3 columns"),
        "not UTF-8": ([str(tmp_path / "latin.tsv")], "expected text in UTF-8"),
        "a number": ([str(tmp_path / "no.jsonl")], "holds float"),
        "no JSON": ([str(tmp_path / "half.jsonl")], "half.jsonl:1"),
        "no texts": ([str(tmp_path / "none.tsv")], "no texts"),
        "null": ([str(tmp_path / "null.jsonl")], 'null.jsonl:1: column "text" is empty'),
        "no file": ([str(tmp_path / "absent.tsv")], "neither a folder nor a file"),
        "no train": ([str(tmp_path / "empty_folder")], "no file train"),
        "one class": ([str(good), "--classes", str(tmp_path / "one.tsv")], "1 classes"),
        "strange class": ([str(good), "--classes", str(tmp_path / "strange.tsv")], "no text has the label maybe"),
        "equal rows": ([str(good), "--classes", str(tmp_path / "equal.tsv")], "of glum and gleeful as the same"),
        "no place": ([str(good), "--template", "a class"], "no {}"),
        "too many tokens": ([str(good), "--tokens", "21"], "expected 3 to 20"),
        "too few tokens": ([str(good), "--tokens", "2"], "expected 3 to 20"),
        "too few for pairs": ([str(good), "--second", "other", "--tokens", "4"], "expected 5 to 20"),
        "one name twice": ([str(tmp_path / "same.tsv")], 'same.tsv:1: two columns "mood"'),
        "one label": ([str(tmp_path / "alone.tsv")], "1 labels; expected at least two"),
        "damaged": ([str(tmp_path / "broken.tsv.gz")], "broken.tsv.gz: damaged gzip (Error"),
        "a long field": ([str(good), "--classes", str(tmp_path / "long.tsv")], "long.tsv:1: expected label"),
        "a list": ([str(good), "--model", str(listed)], "config.json: holds list"),
        "no list": ([str(good), "--model", str(unlisted)], "modules.json: holds dict"),
        "too few": ([str(good), "--per-class", "0"], "--per-class 0"),
        "an image model": ([str(good), "--model", str(tiny_clip)], "model_type is clip"),
        "no tokenizer": ([str(good), "--model", str(bare)], "tokenizer.json: not found"),
        "another's tokenizer": ([str(good), "--model", str(larger)], "at most the model's vocabulary of 20"),
        "no model": ([str(good), "--model", str(tmp_path / "nothing")], "config.json: not found"),
    }
    for name, (arguments, expected) in cases.items():
        defaults = ["--label", "mood", "--out", str(tmp_path / "out"), "--tokens", "12"]
        model = [] if "--model" in arguments else ["--model", str(tiny_bert)]
        assert main(["text", *defaults, *model, *arguments]) == 2, name
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and expected in captured.err, (name, captured.err)
        assert not (tmp_path / "out").exists(), name


@pytest.mark.parametrize("none", ["-1", "-", "", "NaN", "no label", "unlabelled"])
def test_rows_without_a_label(tmp_path, tiny_bert, capsys, none):
    """Such rows are no class: refused with the option's name, left out and counted with it."""
    rows = table()
    source = write_tsv(tmp_path / "set.tsv", change(change(rows, 3, mood=none), 9, mood=none))
    arguments = ["text", str(source), "--label", "mood", "--model", str(tiny_bert), "--tokens", "12", "--out"]
    assert main([*arguments, str(tmp_path / "out")]) == 2
    assert f'set.tsv:5: the label "{none}" means none in many sets; expected --drop-unl' in capsys.readouterr().err
    assert main([*arguments, str(tmp_path / "out"), "--drop-unlabelled"]) == 0
    assert capsys.readouterr().out.strip().endswith("; left out: 2 without a label")
    write_tsv(tmp_path / "set.tsv", [row for place, row in enumerate(rows) if place not in (3, 9)])
    assert main([*arguments, str(tmp_path / "without")]) == 0
    assert (tmp_path / "out/set.h5").read_bytes() == (tmp_path / "without/set.h5").read_bytes()


def test_minus_one_is_a_class_where_it_is_named(tmp_path, tiny_bert):
    moods = {"neg": "-1", "pos": "1"}
    source = write_tsv(tmp_path / "set.tsv", [{**row, "mood": moods[row["mood"]]} for row in table()])
    (tmp_path / "classes.tsv").write_text("-1\tbad\n1\tgood\n")
    with prepared(source, tiny_bert, tmp_path / "out", "--classes", str(tmp_path / "classes.tsv")) as file:
        assert [name.decode() for name in file["class_names"]] == ["bad", "good"]


@pytest.mark.parametrize("write", [write_csv, write_tsv, write_jsonl])
def test_long_texts_are_read_by_all_readers(tmp_path, tiny_bert, write):
    """Python's csv takes fields of 131,072 letters; texts are cut to --tokens anyway."""
    rows = change(table(), 3, text="good " + "day " * 50_000)
    name = {"write_csv": "a.csv", "write_tsv": "a.tsv", "write_jsonl": "a.jsonl"}[write.__name__]
    with prepared(write(tmp_path / name, rows), tiny_bert, tmp_path / "out") as file:
        assert sum(len(file[f"{split}/labels"]) for split in SPLIT_NAMES) == 200


BAD_CELLS = {
    "too long": ({"text": "day " * 250_001}, 'a.jsonl:4: column "text" has 1000003 letters; expected at most 1000000'),
    "half a pair": ({"text": "good \ud800"}, 'a.jsonl:4: column "text"'),
    "half a pair in a label": ({"mood": "\ud800"}, 'a.jsonl:4: column "mood"'),
    "a NUL in a label": ({"mood": "po\0s"}, "a.jsonl:4: 'po\\x00s' has a NUL"),
}


@pytest.mark.parametrize("name", BAD_CELLS)
def test_cells_that_no_file_holds(tmp_path, tiny_bert, capsys, name):
    changes, reason = BAD_CELLS[name]
    source = write_jsonl(tmp_path / "a.jsonl", change(table(), 3, **changes))
    arguments = ["text", str(source), "--label", "mood", "--model", str(tiny_bert), "--tokens", "12"]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert reason in line and "expected" in line and not (tmp_path / "out").exists()


def test_a_tokenizer_that_gives_up_is_said_once(tmp_path, tiny_bert, capfd):
    """Rust writes several lines of its own about it, which say nothing to a user."""
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "model"))
    content = json.loads((folder / "tokenizer.json").read_text())
    content["post_processor"]["special_tokens"] = {}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    source = write_jsonl(tmp_path / "a.jsonl", table())
    arguments = ["text", str(source), "--label", "mood", "--model", str(folder), "--tokens", "12"]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert str(folder / "tokenizer.json") in line and "expected a tokenizer" in line


def test_damaged_folders_of_text_models_are_read_or_refused_in_one_line(tmp_path):
    tried, read = tokenizer_fuzz.fuzz(1000, seed=2, folder=tmp_path)
    assert tried // 20 < read < tried
