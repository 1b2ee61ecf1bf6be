# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The table of the papers' language tasks: what it says, and the command that packs those whose data are there."""

import json
from pathlib import Path

import h5py
import pytest
from text_models import write_text_model

from command import main
from texts.model import TextModel
from texts.tasks import read

WORDS = [
    *("the", "a", "film", "book", "was", "it", "is", "this", "great", "terrible", "yes", "no", "Maybe", "maybe"),
    *("question", "answer", "of", ",", ".", "?", ":", "about"),
]


@pytest.fixture(scope="session")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_model(tmp_path_factory.mktemp("masked"), WORDS, masked=True, max_position_embeddings=40)


def test_the_table_is_whole() -> None:
    table = read()
    sets = {name: [task for task, belongs in table.values() if name in belongs] for name in ("12", "70")}
    assert [len(each) for each in sets.values()] == [12, 72]  # 52 and all 20 of bAbI, of which the paper takes 18
    assert len([task for task in sets["70"] if task.name.startswith("babi_")]) == 20
    for task, _ in table.values():
        matches = [match for each in task.classes for match in each.matches]
        words = [each.word.lower() for each in task.classes]
        assert len(set(matches)) == len(matches) and len(set(words)) == len(words), task.name
        assert len(task.plain_labels) in (0, len(task.classes)), task.name
    assert all(task.sentence for task in sets["12"])
    assert {task.name for task in sets["12"] if task.checked} == {
        "sst2", "cr", "mr", "mpqa", "trec", "subj", "qnli", "rte", "mrpc"
    }  # fmt: skip


def write_tasks(folder: Path) -> None:
    """A plain TSV in the order of the classes' own labels, and JSON lines with the source's columns."""
    for split, rows in {"train": 40, "test": 12}.items():
        trec = [f"{i % 6}\tthe {WORDS[i % 20]} of {split} {WORDS[i // 2 % 20]} {i}" for i in range(rows)]
        (folder / "trec6").mkdir(parents=True, exist_ok=True)
        (folder / "trec6" / f"{split}.tsv").write_text("\n".join(trec) + "\n")
        name = "validation" if split == "test" else split
        lines = [
            {"sentence1": f"a {WORDS[i % 20]} {split} {i}", "sentence2": f"this {WORDS[i // 2 % 20]}", "label": i % 2}
            for i in range(rows)
        ]
        (folder / "rte").mkdir(exist_ok=True)
        (folder / "rte" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (folder / "rte" / "test.jsonl").write_text('{"sentence1": "a", "sentence2": "b", "label": -1}\n')
    (folder / "snli.jsonl").write_text(
        "\n".join(
            json.dumps(
                {
                    "premise": f"a {WORDS[i % 20]} {i}",
                    "hypothesis": "it was",
                    "label": i % 3 if i % 7 else (None, -1)[i % 2],
                }
            )
            for i in range(60)
        )
    )


def call(location: Path, out: Path, *arguments: str) -> list[str]:
    common = ["--data-location", str(location), "--out", str(out), "--tokens", "24", "--per-class", "4"]
    return ["text-tasks", *common, *arguments]


def test_what_is_there_is_packed_and_the_rest_is_listed(
    tmp_path: Path, masked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tasks(tmp_path / "data")
    copy, out = tmp_path / "copy", tmp_path / "out"
    arguments = call(tmp_path / "data", out, "--model", str(masked), "--new-tokens", str(copy))
    assert main(arguments) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"new tokens in {copy}: ") and "Expression" in said[0] and "great" not in said[0]
    assert len([line for line in said if ": missing; expected " in line]) == 9
    sst2 = next(line for line in said if line.startswith("sst2"))
    assert f"{tmp_path}/data/sst2 or {tmp_path}/data/sst_binary" in sst2 and "nyu-mll/glue:sst2" in sst2
    assert ["unverified" in line for line in said if line.split()[0] in ("trec", "rte", "snli")] == [False, True, True]
    assert any("; left out: 9 without a label" in line for line in said if line.startswith("snli"))
    known = TextModel(copy).tokenizer
    with h5py.File(out / "trec.h5") as file:
        names = [name.decode() for name in file["class_names"]]
        assert names[0] == "abbreviation" and file.attrs["verified"] == "a plain copy"
        assert file["head/tokens"][0] == known.token_to_id("Expression") and file.attrs["prompt"] == "{mask}: {text}"
        assert (file["train/mask"][()] == 1).all()
        ids, label = file["test/inputs"][:], file["test/labels"][:]
        assert len(label) == 12 and ids.shape[1] == 24
    with h5py.File(out / "rte.h5") as file:
        assert len(file["test/labels"]) == 12  # the source's validation: its test has no labels
        words = [[known.id_to_token(int(token)) for token in row] for row in file["test/inputs"][:]]
        assert all(row[0] == "[CLS]" and row[row.index("?") + 1] == "[MASK]" for row in words)
    assert main(arguments) == 0
    assert sum("(unchanged)" in line for line in capsys.readouterr().out.splitlines()) == 3


def test_an_encoder_gets_label_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tasks(tmp_path / "data")
    words = [*WORDS, "expression", "entity", "description", "human", "location", "number", "asks", "for", "first"]
    encoder = write_text_model(tmp_path / "encoder", words, max_position_embeddings=40)
    assert main(call(tmp_path / "data", tmp_path / "out", "--model", str(encoder), "--only", "trec,rte")) == 0
    capsys.readouterr()
    with h5py.File(tmp_path / "out" / "trec.h5") as file:
        assert file["head"].attrs["kind"] == "cosine" and "mask" not in file["train"]
        assert file["head"].attrs["sentences"][1] == "This question asks for: Entity."
    with h5py.File(tmp_path / "out" / "rte.h5") as file:
        assert file["train/types"][()].max() == 1


def test_bad_calls_get_one_clear_line(
    tmp_path: Path, masked: Path, tiny_bert: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    write_tasks(data)
    (data / "cr").mkdir()
    (data / "cr" / "train.tsv").write_text("7\tgood\n")
    (data / "imdb").mkdir()
    (data / "imdb" / "train.jsonl").write_text('{"text": "a", "label": "pos"}\n')
    (data / "qqp").mkdir()
    (data / "qqp" / "train.jsonl").write_text('{"question1": "a", "question2": "the", "is_duplicate": 1}\n')
    cases = {
        "nothing": (call(tmp_path / "none", tmp_path / "out", "--model", str(masked)), "holds none of the 12 tasks"),
        "no such task": (
            call(data, tmp_path / "out", "--only", "sst3"),
            "--only sst3: not known; expected some of sst2",
        ),
        "a word": (call(data, tmp_path / "out", "--model", str(masked), "--only", "trec"), "or --new-tokens DIR"),
        "a strange label": (
            call(data, tmp_path / "out", "--model", str(masked), "--only", "cr"),
            "cr: the label 7 is none of cr's; expected 0, 1, negative, positive",
        ),
        "another column": (
            call(data, tmp_path / "out", "--model", str(masked), "--only", "qqp"),
            'qqp/train.jsonl:1: no column "label"; expected one of question1, question2, is_duplicate',
        ),
        "no sentence": (
            call(data, tmp_path / "out", "--model", str(tiny_bert), "--only", "imdb"),
            "no label sentence of imdb",
        ),
        "tokens of an encoder": (
            call(
                data, tmp_path / "out", "--model", str(tiny_bert), "--only", "rte", "--new-tokens", str(tmp_path / "x")
            ),
            "--new-tokens: belongs to a masked language model",
        ),
    }
    for name, (arguments, expected) in cases.items():
        assert main(arguments) == 2, name
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and expected in captured.err, (name, captured.err)
        assert not (tmp_path / "out").exists(), name
