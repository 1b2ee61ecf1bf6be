# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Rows that have choices of their own: small folders in the formats of the sets that lm-evaluation-harness reads, whose
packed tokens are those that its definition gives by transformers' tokenizers; what bad rows say."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from text_models import WORDS, write_decoder, write_t5
from transformers import AutoTokenizer

from command import main
from splits import SPLIT_NAMES

Rows = list[dict[str, Any]]
KNOWN = [*WORDS, "Question", "Answer", "Then", "it"]


def phrase(i: int, count: int = 3) -> str:
    return " ".join(WORDS[(7 * i + 3 * k * k + k) % 15] for k in range(count))


def arc(i: int) -> dict[str, Any]:
    """Four choices, sometimes three, which are called A, B, … or 1, 2, …."""
    count = 3 if i % 5 == 0 else 4
    names = list("ABCD" if i % 2 else "1234")[:count]
    texts = [phrase(i + 11 * k, 1 + (i + k) % 3) for k in range(count)]
    return {
        "id": str(i),
        "question": f"{phrase(i, 4)} {i}?",
        "choices": {"text": texts, "label": names},
        "answerKey": names[i % count],
    }


def hellaswag(i: int) -> dict[str, Any]:
    second = "" if i % 4 == 0 else f"the {phrase(i, 2)}"
    endings = [f"[substeps] {phrase(i + k)}  {phrase(k, 1)}. [title] {phrase(k + 1, 2)}." for k in range(4)]
    return {
        "activity_label": "Film",
        "ctx_a": f"[header] {phrase(i, 4)} {i}.",
        "ctx_b": second,
        "endings": endings,
        "label": str(i % 4),
    }


def piqa(i: int) -> dict[str, Any]:
    return {"goal": f"{phrase(i, 4)} {i}", "sol1": phrase(i + 1), "sol2": f"{phrase(i + 2, 4)} ", "label": i % 2}


def winogrande(i: int) -> dict[str, Any]:
    return {
        "sentence": f"{phrase(i, 4)} {i} because _ was {phrase(i + 3, 2)}.",
        "option1": phrase(i, 1),
        "option2": phrase(i + 5, 2),
        "answer": str(1 + i % 2),
    }


def boolq(i: int) -> dict[str, Any]:
    return {"passage": f"{phrase(i, 5)} {i}.", "question": f"is it {phrase(i, 2)}", "label": bool(i % 2)}


def pieces(text: str) -> str:
    """HellaSwag's preprocessing."""
    import re

    return re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". ")).replace("  ", " ")


# What lm-evaluation-harness asks of each row: pairs of a context and what goes on from it, the texts whose letters
# acc_norm counts, and which is right.
Asked = tuple[list[tuple[str, str]], list[str], int]


def plain(context: str, choices: list[str], right: int) -> Asked:
    return [(context, f" {each}") for each in choices], choices, right


def ask_hellaswag(row: dict[str, Any]) -> Asked:
    context = pieces(f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}")
    return plain(context, [pieces(ending) for ending in row["endings"]], int(row["label"]))


def ask_winogrande(row: dict[str, Any]) -> Asked:
    before, _, behind = row["sentence"].partition("_")
    pairs = [(before + row[name], f" {behind.strip()}") for name in ("option1", "option2")]
    return pairs, [behind.strip()] * 2, int(row["answer"]) - 1


SETS: dict[str, tuple[Callable[[int], dict[str, Any]], Callable[[dict[str, Any]], Asked], tuple[str, ...]]] = {
    "arc_easy": (
        arc,
        lambda row: plain(
            f"Question: {row['question']}\nAnswer:",
            row["choices"]["text"],
            row["choices"]["label"].index(row["answerKey"]),
        ),
        ("train", "validation", "test"),
    ),
    "hellaswag": (hellaswag, ask_hellaswag, ("train", "validation")),
    "piqa": (
        piqa,
        lambda row: plain(f"Question: {row['goal']}\nAnswer:", [row["sol1"], row["sol2"]], row["label"]),
        ("train", "validation"),
    ),
    "winogrande": (winogrande, ask_winogrande, ("train", "validation")),
    "boolq": (
        boolq,
        lambda row: plain(f"{row['passage']}\nQuestion: {row['question']}?\nAnswer:", ["no", "yes"], int(row["label"])),
        ("train", "validation"),
    ),
}


def write_set(folder: Path, name: str, kind: str = ".jsonl") -> dict[str, Rows]:
    make, _, splits = SETS[name]
    (folder / name).mkdir(parents=True)
    rows = {
        split: [make(i + 40 * at) for i in range(40 if split == "train" else 12)] for at, split in enumerate(splits)
    }
    for split, some in rows.items():
        if kind == ".parquet":
            import pyarrow
            import pyarrow.parquet

            pyarrow.parquet.write_table(
                pyarrow.Table.from_pylist(some), folder / name / f"{split}-00000-of-00001.parquet"
            )
        else:
            lines = "\n".join(json.dumps(row) for row in some)
            (folder / name / f"{split}.jsonl").write_text(lines + "\n")
    return rows


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("llama"), KNOWN, max_position_embeddings=200)


def call(folder: Path, model: Path, name: str, *more: str) -> list[str]:
    return [
        "text-tasks",
        "--only",
        name,
        "--data-location",
        str(folder),
        "--out",
        str(folder / "out"),
        "--model",
        str(model),
        "--answers",
        "own",
        "--tokens",
        "100",
        "--answer-tokens",
        "60",
        *more,
    ]


def lines_of(asked: Asked, tokenizer: Any) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The harness' tokens of each choice: those before what is scored, and what is."""
    lines = []
    for context, continuation in asked[0]:
        stripped = context.rstrip()
        before = tokenizer(stripped).input_ids
        whole = tokenizer(stripped + context[len(stripped) :] + continuation).input_ids
        lines.append((tuple(before), tuple(whole[len(before) :])))
    return lines


def packed_lines(group: h5py.Group, row: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    prompt = group["inputs"][row][: group["lengths"][row]].tolist()
    lines = []
    for choice, length in enumerate(group["choice_lengths"][row]):
        if length == 0:
            continue
        given = int(group["choice_given"][row, choice]) if "choice_given" in group else 0
        tokens = group["choices"][row, choice][:length].tolist()
        lines.append((tuple(prompt + tokens[:given]), tuple(tokens[given:])))
    return lines


@pytest.mark.parametrize(("name", "kind"), [(name, ".jsonl") for name in SETS] + [("arc_easy", ".parquet")])
def test_rows_are_what_the_harness_asks(tmp_path: Path, llama: Path, name: str, kind: str) -> None:
    rows = write_set(tmp_path, name, kind)
    assert main(call(tmp_path, llama, name, "--score", "acc_norm")) == 0
    tokenizer, ask = AutoTokenizer.from_pretrained(llama), SETS[name][1]
    expected = [ask(row) for some in rows.values() for row in some]
    by_tokens = {tuple(lines_of(each, tokenizer)): each for each in expected}
    counts = (
        {"train": 36, "validation": 4, "test": 12} if len(rows) == 2 else {"train": 40, "validation": 12, "test": 12}
    )
    with h5py.File(tmp_path / "out" / f"{name}.h5") as file:
        assert file["head"].attrs["kind"] == "choices" and file.attrs["truncated"] == 0
        most = max(len(each[1]) for each in expected)
        assert len(file["class_names"]) == most
        for split in SPLIT_NAMES:
            group = file[split]
            assert len(group["labels"]) == counts[split]
            for row in range(len(group["labels"])):
                _, texts, right = by_tokens[tuple(packed_lines(group, row))]
                assert group["labels"][row] == right
                letters = group["choice_letters"][row]
                assert letters.tolist() == [len(text) for text in texts] + [0] * (most - len(texts))
        test = {tuple(packed_lines(file["test"], row)) for row in range(12)}
        assert test == {tuple(lines_of(ask(row), tokenizer)) for row in list(rows.values())[-1]}
    assert main(call(tmp_path, llama, name)) == 0  # log p as it is
    with h5py.File(tmp_path / "out" / f"{name}.h5") as file:
        assert "choice_letters" not in file["train"]


def test_the_same_call_again_packs_nothing(tmp_path: Path, llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_set(tmp_path, "piqa")
    assert main(call(tmp_path, llama, "piqa")) == 0
    capsys.readouterr()
    assert main(call(tmp_path, llama, "piqa")) == 0
    assert "(unchanged)" in capsys.readouterr().out


def test_a_t5_answers_with_an_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_t5(tmp_path / "t5", KNOWN)
    write_set(tmp_path, "piqa")
    write_set(tmp_path, "winogrande")
    assert main(call(tmp_path, model, "piqa")) == 0
    with h5py.File(tmp_path / "out" / "piqa.h5") as file:
        tokens, lengths = file["train/choices"][0], file["train/choice_lengths"][0]
        assert all(tokens[at, length - 1] == 1 for at, length in enumerate(lengths))
    capsys.readouterr()
    assert main(call(tmp_path, model, "winogrande")) == 2
    assert "its choices stand in the context; expected a decoder" in capsys.readouterr().err


def test_a_gap_at_the_beginning_needs_a_token_before_it(
    tmp_path: Path, llama: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_set(tmp_path, "winogrande")["train"]
    rows[0]["sentence"] = "_ was good."
    rows[0] |= {"option1": "book", "option2": "film"}
    (tmp_path / "winogrande" / "train.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    assert main(call(tmp_path, llama, "winogrande")) == 0  # whose tokenizer puts <s> there
    assert "gap" not in capsys.readouterr().out
    silent = write_decoder(tmp_path / "silent", KNOWN, max_position_embeddings=200)
    content = json.loads((silent / "tokenizer.json").read_text())
    (silent / "tokenizer.json").write_text(json.dumps(content | {"post_processor": None}))
    assert main(call(tmp_path, silent, "winogrande")) == 0
    assert "1 that begin with their gap" in capsys.readouterr().out


def _with(change: Callable[[dict[str, Any]], object]) -> Callable[[Rows], None]:
    return lambda rows: (change(rows[7]), None)[1]


BAD: dict[str, tuple[str, Callable[[Rows], None], tuple[str, ...], str]] = {
    "no right answer": (
        "arc_easy",
        _with(lambda row: row.update(answerKey="E")),
        (),
        "train.jsonl:8: the label E is none of the row's 4 choices; expected A, B, C, D",
    ),
    "a label out of range": (
        "piqa",
        _with(lambda row: row.update(label=2)),
        (),
        "the label 2 is none of the row's 2 choices; expected 0, 1",
    ),
    "no label": ("piqa", _with(lambda row: row.pop("label")), (), 'no column "label"'),
    "an empty choice": (
        "hellaswag",
        _with(lambda row: row.update(endings=["a", "b", " ", "c"])),
        (),
        'column "endings" holds a choice that is empty or no text; expected words',
    ),
    "a choice of a mark alone": (
        "hellaswag",
        _with(lambda row: row.update(endings=["a", "b", "[title]", "c"])),
        (),
        "its context or a choice has no words",
    ),
    "an empty column": ("piqa", _with(lambda row: row.update(sol2="")), (), 'column "sol2" is empty; expected words'),
    "one choice": (
        "arc_easy",
        _with(lambda row: row.update(choices={"text": ["a"], "label": ["A"]})),
        (),
        "has 1 choices; expected a list of two or more",
    ),
    "other columns": ("piqa", _with(lambda row: row.pop("sol1")), (), 'no column "sol1"; expected one of'),
    "no gap": ("winogrande", _with(lambda row: row.update(sentence="a film")), (), "has no gap, written _, with words"),
    "a long context": ("piqa", lambda rows: None, ("--tokens", "10"), "expected at most 10: --tokens"),
    "a long choice": ("piqa", lambda rows: None, ("--answer-tokens", "2"), "expected at most 2: --answer-tokens"),
    "no choices": ("sst2", lambda rows: None, (), "the table has no choices by row of sst2; expected --set choices"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_gets_one_line(name: str, tmp_path: Path, llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, change, more, expected = BAD[name]
    rows = write_set(tmp_path, task if task in SETS else "piqa")["train"]
    change(rows)
    folder = tmp_path / (task if task in SETS else "piqa")
    (folder / "train.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    if task not in SETS:
        folder.rename(tmp_path / task)
    capsys.readouterr()
    assert main(call(tmp_path, llama, task, *more)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and expected in error, error
    assert not (tmp_path / "out" / f"{task}.h5").exists()


def test_rows_without_a_label_are_left_out_and_counted(
    tmp_path: Path, llama: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_set(tmp_path, "hellaswag")["train"]
    rows[3]["label"] = ""
    (tmp_path / "hellaswag" / "train.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    assert main(call(tmp_path, llama, "hellaswag")) == 0
    assert "1 without a label" in capsys.readouterr().out
    with h5py.File(tmp_path / "out" / "hellaswag.h5") as file:
        assert len(file["train/labels"]) + len(file["validation/labels"]) == 39
        assert np.all(file["train/lengths"][()] > 0)
