# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Prompts of T5 through the command line: no mask, answers of classes by all their tokens or the first, and answers
that are texts, the table's prompts of GLUE."""

import json
from pathlib import Path

import h5py
import pytest
from test_prompts import words_of
from test_text import table, write_tsv
from text_models import WORDS, write_t5
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from command import main
from splits import SPLIT_NAMES
from texts.model import TextModel
from texts.tasks import read

KNOWN = [*WORDS, "mood:", "yes", "no", "acceptable", "un"]
PROMPT = "mood: {text}"
MOODS = ["--label", "mood", "--prompt", PROMPT, "--words", "pos=good", "neg=bad"]


@pytest.fixture(scope="session")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_t5(tmp_path_factory.mktemp("t5"), KNOWN)


def test_prompts_are_as_transformers_makes_them(tmp_path: Path, t5: Path) -> None:
    rows = table()
    source = write_tsv(tmp_path / "mood.tsv", rows)
    arguments = ["--model", str(t5), "--out", str(tmp_path / "out"), "--tokens", "9"]
    assert main(["text", str(source), *MOODS, *arguments, "--answers", "first"]) == 0
    theirs = AutoTokenizer.from_pretrained(t5)
    assert isinstance(theirs, PreTrainedTokenizerFast)
    whole = {tuple(theirs(f"mood: {row['text']}").input_ids) for row in rows}
    with h5py.File(tmp_path / "out" / "mood.h5") as file:
        assert file.attrs["prompt"] == PROMPT and file.attrs["first_tokens"] == "" and "mask" not in file.attrs
        assert [name.decode() for name in file["class_names"]] == ["neg", "pos"]
        assert file["head/tokens"][()].tolist() == theirs.convert_tokens_to_ids(["\u2581bad", "\u2581good"])
        cut = 0
        for split in SPLIT_NAMES:
            assert set(file[split]) >= {"inputs", "lengths", "labels"} and "mask" not in file[split]
            for row, length in enumerate(file[f"{split}/lengths"]):
                words = words_of(file, t5, split, row)
                assert words[0] == "\u2581mood:" and words[-1] == "</s>"
                packed = tuple(int(token) for token in file[f"{split}/inputs"][row][:length])
                cut += packed not in whole
        assert cut == file.attrs["truncated"]


def test_an_answer_of_several_tokens_is_read_by_its_first(tmp_path: Path, t5: Path) -> None:
    rows = [f"{i % 2}\tthe {WORDS[i % 15]} {WORDS[i // 2 % 15]} {i}" for i in range(60)]
    for name in ("cola", "qnli_dev"):
        (tmp_path / name).mkdir()
        more = "\tthis is about" if name == "qnli_dev" else ""
        (tmp_path / name / "train.tsv").write_text("\n".join(row + more for row in rows) + "\n")
    call = ["text-tasks", "--set", "glue", "--data-location", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main([*call, "--model", str(t5), "--tokens", "200", "--answers", "first"]) == 0
    known = TextModel(t5).tokenizer
    with h5py.File(tmp_path / "out" / "cola.h5") as file:
        assert file.attrs["first_tokens"] == "unacceptable"
        wanted = [known.token_to_id(f"\u2581{word}") for word in ("acceptable", "un")]
        assert file["head/tokens"][()].tolist() == wanted
        assert list(file["head"].attrs["words"]) == ["acceptable", "unacceptable"]
    with h5py.File(tmp_path / "out" / "qnli.h5") as file:  # a plain copy has the question first, its prompt last
        filled = "".join(words_of(file, t5, "test", 0)).replace("\u2581", " ")
        assert filled.startswith(" Given the context: 'this is about', does the question 'the ")


def test_answers_of_classes_are_whole_sequences_as_transformers_has_them(tmp_path: Path, t5: Path) -> None:
    rows = table()
    source = write_tsv(tmp_path / "mood.tsv", rows)
    words = ["pos=bad film", "neg=bad"]  # which begin alike
    arguments = ["--model", str(t5), "--out", str(tmp_path / "out"), "--tokens", "9"]
    assert main(["text", str(source), *MOODS[:5], *words, *arguments]) == 0
    theirs = AutoTokenizer.from_pretrained(t5)
    with h5py.File(tmp_path / "out" / "mood.h5") as file:
        head = file["head"]
        assert head.attrs["kind"] == "sequences" and list(head.attrs["words"]) == ["bad", "bad film"]
        assert [name.decode() for name in file["class_names"]] == ["neg", "pos"]
        answers = [row[:length].tolist() for row, length in zip(head["tokens"][()], head["lengths"][()], strict=True)]
        assert answers == [theirs(word).input_ids for word in ("bad", "bad film")]


def test_texts_are_answered_by_texts(tmp_path: Path, t5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = WORDS[:9]
    rows: dict[str, list[dict[str, object]]] = {
        "stsb": [{"sentence1": f"the {words[i % 9]} {i}", "sentence2": "a", "label": i % 51 / 10} for i in range(60)],
        "squad": [
            {"question": f"the {i // 2}", "context": words[i % 9], "answers": {"text": ["bad film", "bad"]}}
            for i in range(60)
        ],
        "commongen": [{"concepts": [words[i // 3 % 9], str(i // 3)], "target": words[i % 7]} for i in range(60)],
        "multi_news": [{"document": f"the {i}", "summary": "bad " * (i + 1)} for i in range(60)],
    }
    for name, some in rows.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.jsonl").write_text("\n".join(json.dumps(row) for row in some) + "\n")
    call = ["text-tasks", "--data-location", str(tmp_path), "--out", str(tmp_path / "out"), "--model", str(t5)]
    call += ["--tokens", "300", "--answer-tokens", "8", "--only", "stsb,squad,commongen,multinews"]
    assert main([*call, "--per-class", "20"]) == 0
    assert "answers cut to 8" in capsys.readouterr().out
    theirs = AutoTokenizer.from_pretrained(t5)
    for name, metric in {"stsb": "spearman", "squad": "f1", "commongen": "token_accuracy"}.items():
        with h5py.File(tmp_path / "out" / f"{name}.h5") as file:
            assert file["head"].attrs["kind"] == "text" and file["head"].attrs["metric"] == metric
            assert "class_names" not in file and "labels" not in file["train"]
            assert len(file["train/targets"]) == 20 and file["train/targets"].shape[1] == 8
            pieces = [piece.decode() for piece in file["head/pieces"][()]]
            for split in SPLIT_NAMES:
                group = file[split]
                for row, length in enumerate(group["target_lengths"][()]):
                    ids = group["targets"][row][:length].tolist()
                    first = group["references"][row].decode().split("\n")[0]
                    assert ids == theirs(first).input_ids and not group["targets"][row][length:].any()
                    said = "".join(pieces[token] for token in ids).strip()
                    assert said == theirs.decode(ids, skip_special_tokens=True).strip() == first
            if name == "squad":
                assert set(file["test/references"][()]) == {b"bad film\nbad"}
            if name == "commongen":  # equal concepts stand in a split once, with all their sentences
                assert max(len(token.decode().split("\n")) for token in file["test/references"][()]) == 3
    with h5py.File(tmp_path / "out" / "multinews.h5") as file:
        assert file.attrs["answers_cut"] > 0 and (file["train/targets"][()][:, 7] <= 1).all()  # their end is kept
    assert main([*call[:-1], "stsb", "--answer-tokens", "2"]) == 2
    assert "tokens; expected at most 2: --answer-tokens" in capsys.readouterr().err


def test_the_sets_of_t5_have_their_answers() -> None:
    table = read()
    sets = {name: [task for task, belongs in table.values() if name in belongs] for name in ("glue", "t5")}
    assert {task.name for task in sets["glue"]} == {"cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb"}
    assert {task.name for task in sets["t5"]} == {
        "imdb",
        "race",
        "qasc",
        "squad",
        "commongen",
        "multinews",
    }
    for task, _ in table.values():
        assert task.prompt is not None or task.answers is not None
        assert len(task.words) == (len(task.classes) if task.answers else 0) == len(set(task.words)), task.name
        if task.prompt is not None and task.answers is not None:
            assert set(task.answers.columns) == set(task.prompt.columns), task.name


def test_bad_calls_get_one_clear_line(
    tmp_path: Path, t5: Path, tiny_bert: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = ["text", str(write_tsv(tmp_path / "good.tsv", table())), "--label", "mood"]
    (tmp_path / "trec6").mkdir()
    (tmp_path / "trec6" / "train.tsv").write_text("0\tthe film\n")
    (tmp_path / "race").mkdir()
    row = {"article": "a", "question": "b", "options": ["a", "b", "c", "d"], "answer": "A"}
    (tmp_path / "race" / "train.jsonl").write_text(json.dumps(row) + "\n")
    tasks = ["text-tasks", "--data-location", str(tmp_path), "--tokens", "16"]
    cases = {
        "no prompt": (good, "is a T5; expected --prompt"),
        "a mask": ([*good, "--prompt", "{text} {mask}"], "has a {mask}; expected none"),
        "new tokens": ([*good, *MOODS[2:], "--new-tokens", str(tmp_path / "x")], "belongs to a masked language model"),
        "one beginning": (
            [*good, *MOODS[2:5], "neg=bad", "pos=bad film", "--answers", "first"],
            "begin with one token",
        ),
        "one answer": ([*good, *MOODS[2:5], "neg=bad", "pos=bad "], "are the same tokens"),
        "unknown tokens": ([*good, *MOODS[2:5], "neg=bad", "pos=\u00fc"], "does not know; expected another"),
        "an unknown word": (
            [*good, *MOODS[2:5], "neg=bad", "pos=\u00e9", "--answers", "first"],
            "expected one that it knows: another word",
        ),
        "no answers": ([*tasks, "--only", "trec"], "is a T5, for which the table has no prompt of trec"),
        "no sentence": ([*tasks, "--only", "race", "--model", str(tiny_bert)], "no label sentence of race"),
        "too long": ([*good, *MOODS[2:], "--tokens", "600"], "--tokens 600: expected 3 to 512"),
    }
    for name, (arguments, expected) in cases.items():
        model = [] if "--model" in arguments else ["--model", str(t5)]
        assert main([*arguments, *model, "--out", str(tmp_path / "out")]) == 2, name
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and expected in captured.err, (name, captured.err)
        assert not (tmp_path / "out").exists(), name
