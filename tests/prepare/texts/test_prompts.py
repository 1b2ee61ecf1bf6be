# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Prompts and label words for masked language models through the command line: where the mask stands, what is cut, new
tokens, and what bad input says."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from test_text import table, write_jsonl, write_tsv
from text_models import WORDS, write_roberta, write_text_model
from transformers import AutoModelForMaskedLM, BertForMaskedLM

from command import main
from splits import SPLIT_NAMES
from texts.model import TextModel, fingerprint
from texts.new_tokens import RECORD
from texts.prompts import parse

PROMPT = "{text} it was {mask} ."
ALL = [*WORDS, "it", "."]


@pytest.fixture(scope="session")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_model(tmp_path_factory.mktemp("masked"), ALL, masked=True)


def prepared(source: Path, model: Path, out: Path, *arguments: str) -> h5py.File:
    common = ["--label", "mood", "--model", str(model), "--task", "mood", "--out", str(out)]
    assert main(["text", str(source), "--replace", *common, *arguments]) == 0
    return h5py.File(out / "mood.h5")


def words_of(file: h5py.File, model: Path, split: str, row: int) -> list[str]:
    tokenizer = TextModel(model).tokenizer
    length = file[f"{split}/lengths"][row]
    assert not file[f"{split}/inputs"][row][length:].any()
    return [tokenizer.id_to_token(int(token)) for token in file[f"{split}/inputs"][row][:length]]


def test_masks_and_label_words_are_stored(tmp_path: Path, masked: Path) -> None:
    arguments = ["--prompt", PROMPT, "--words", "pos=good", "neg=bad", "--tokens", "16"]
    with prepared(write_tsv(tmp_path / "in.tsv", table()), masked, tmp_path / "out", *arguments) as file:
        assert file.attrs["prompt"] == PROMPT and file.attrs["mask"] == "[MASK]" and file.attrs["truncated"] == 0
        assert file.attrs["tokenizer"] == fingerprint((masked / "tokenizer.json").read_bytes())
        head = file["head"]
        assert head.attrs["kind"] == "words" and list(head.attrs["words"]) == ["bad", "good"] and "weight" not in head
        assert [name.decode() for name in file["class_names"]] == ["neg", "pos"]
        known = TextModel(masked).tokenizer
        assert head["tokens"][()].tolist() == [known.token_to_id("bad"), known.token_to_id("good")]
        for split in SPLIT_NAMES:
            assert file[f"{split}/mask"].dtype == np.int32 and "types" not in file[split]
            for row, place in enumerate(file[f"{split}/mask"]):
                words = words_of(file, masked, split, row)
                assert words[place] == "[MASK]" and words.count("[MASK]") == 1
                assert words[-5:] == ["it", "was", "[MASK]", ".", "[SEP]"] and words[0] == "[CLS]"


def test_what_is_too_long_loses_the_longest_texts_ends(
    tmp_path: Path, masked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = ["--prompt", "{text} ? {mask} , {second} .", "--second", "other", "--words", "pos=yes", "neg=no"]
    source = write_tsv(tmp_path / "in.tsv", table())
    with prepared(source, masked, tmp_path / "long", *prompt, "--tokens", "20") as file:
        whole = {tuple(words_of(file, masked, "train", row)) for row in range(10)}
    with prepared(source, masked, tmp_path / "short", *prompt, "--tokens", "12") as file:
        cut = [words_of(file, masked, "train", row) for row in range(10)]
        masks = file["train/mask"][:10]
        assert file.attrs["truncated"] == 200
    assert "200 texts cut to 12 tokens" in capsys.readouterr().out
    longer = {(words[1 : words.index("[UNK]")][0], len(words)) for words in whole}
    assert all(length == 18 for _, length in longer)  # 8 + 4 words, three signs, a mask, two special tokens
    for words, place in zip(cut, masks, strict=True):
        assert len(words) == 12 and words[place] == "[MASK]" and words[-2:] == [".", "[SEP]"]
        first, second = words[1 : place - 1], words[place + 2 : -2]
        assert (len(first), len(second)) == (3, 3)
        assert any(tuple(first) == each[1:4] and tuple(second) == each[12:15] for each in whole)


def test_columns_by_name_parts_of_columns_and_optional_parts(tmp_path: Path, masked: Path) -> None:
    rows = [
        {"mood": "A" if i % 2 else "B", "question": f"the {WORDS[i % 20]} was {WORDS[(i * 7) % 20]}",
         "choices": {"text": [WORDS[i // 3], "book", *(["plot"] if i % 4 < 2 else [])]}}
        for i in range(60)
    ]  # fmt: skip
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)))
    prompt = "{question} a {choices.text.0} of {choices.text.1}[ very {choices.text.2}] not {mask}"
    arguments = ["--prompt", prompt, "--words", "A=yes", "B=no", "--tokens", "20", "--per-class", "12"]
    with prepared(source, masked, tmp_path / "out", *arguments) as file:
        texts = [" ".join(words_of(file, masked, "train", row)[1:-1]) for row in range(24)]
    assert {text.count(" very plot not [MASK]") for text in texts} == {0, 1}
    assert all(" of book " in text for text in texts)


def test_a_word_of_roberta_has_a_space_before_it(tmp_path: Path) -> None:
    folder = write_roberta(tmp_path / "roberta", WORDS)
    arguments = ["--prompt", "{text} It was {mask}.", "--words", "pos=good", "neg=bad", "--tokens", "32"]
    with prepared(write_tsv(tmp_path / "in.tsv", table()), folder, tmp_path / "out", *arguments) as file:
        known = TextModel(folder).tokenizer
        assert file["head/tokens"][()].tolist() == [known.token_to_id("Ġbad"), known.token_to_id("Ġgood")]
        words = words_of(file, folder, "train", 0)
        assert words[0] == "<s>" and words[-2:] == [".", "</s>"] and words[file["train/mask"][0]] == "<mask>"
        assert words[file["train/mask"][0] - 1] != "Ġ"  # the mask takes the space before it


@pytest.mark.parametrize("roberta", [False, True])
def test_new_tokens_are_made_in_a_copy_and_recorded(
    tmp_path: Path, masked: Path, roberta: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_roberta(tmp_path / "roberta", WORDS) if roberta else masked
    source, copy = write_tsv(tmp_path / "in.tsv", table()), tmp_path / "copy"
    words = [
        "--prompt",
        "{text} it was {mask}",
        "--words",
        "pos=wonderful",
        "neg=bad",
        "--tokens",
        "32" if roberta else "16",
    ]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for _ in range(2):  # the second call finds the copy
        with prepared(source, folder, tmp_path / "out", *words, "--new-tokens", str(copy)) as file:
            token = int(file["head/tokens"][1])
            assert file.attrs["new_tokens"] == "wonderful"
            assert file.attrs["tokenizer"] == fingerprint((copy / "tokenizer.json").read_bytes())
        assert f"new tokens in {copy}: wonderful" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert json.loads((copy / RECORD).read_text())["words"] == {"wonderful": token}
    old, new = (AutoModelForMaskedLM.from_pretrained(each) for each in (folder, copy))
    size = old.config.vocab_size
    assert token == size and new.config.vocab_size == size + 1
    rows = [m.get_input_embeddings().weight.detach() for m in (old, new)]
    pieces = [piece for piece in TextModel(folder).word_tokens("wonderful") if piece != TextModel(folder).unknown]
    assert bool(pieces) == roberta  # the small BERT has no letters
    torch.testing.assert_close(rows[1][:size], rows[0], rtol=0, atol=0)
    torch.testing.assert_close(rows[1][size], rows[0][pieces or slice(None)].mean(0))
    ids = torch.tensor([TextModel(folder).tokenizer.encode("the film was good").ids])
    with torch.no_grad():  # what was a token gives the same logits
        torch.testing.assert_close(new(ids).logits[..., :size], old(ids).logits)


def test_templates() -> None:
    prompt = parse("{title}: {mask} [({body.0})]", "here")
    assert prompt.columns == ["title", "body.0"] and prompt.optional == {"body.0"}
    assert prompt.fill({"title": "a", "body.0": "b"}, "M") == ("a: M (b)", [(0, 1), (6, 7)])
    assert prompt.fill({"title": "a", "body.0": ""}, "M") == ("a: M ", [(0, 1)])


def change(rows: list[dict[str, str]], row: int, **columns: str) -> list[dict[str, str]]:
    return [{**each, **columns} if i == row else each for i, each in enumerate(rows)]


def test_bad_prompts_get_one_clear_line(
    tmp_path: Path, masked: Path, tiny_bert: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = str(write_tsv(tmp_path / "good.tsv", table()))
    both = ["--words", "pos=good", "neg=bad"]
    larger = write_text_model(tmp_path / "larger", [*ALL, "more"], masked=True)
    maskless = tmp_path / "maskless"
    maskless.mkdir()
    for path in masked.iterdir():
        (maskless / path.name).write_bytes(path.read_bytes().replace(b"[MASK]", b"[MUSK]"))
    (tmp_path / "sentences.tsv").write_text("neg\tsad\tit was sad\npos\tglad\n")
    other = tmp_path / "other"
    grand = ["--prompt", PROMPT, "--words", "pos=grand", "neg=bad", "--new-tokens", str(other)]
    first = ["text", good, "--label", "mood", "--tokens", "16", "--model", str(masked), "--out", str(tmp_path / "x")]
    assert main([*first, *grand]) == 0
    capsys.readouterr()
    cases: dict[str, tuple[list[str], str]] = {
        "no mask": ([good, "--prompt", "{text} it was good"], "0 masks; expected one {mask}"),
        "two masks": ([good, "--prompt", "{text} {mask} {mask}"], "2 masks; expected one {mask}"),
        "a mask in brackets": ([good, "--prompt", "{text}[ {mask}]"], "outside of brackets"),
        "no column": ([good, "--prompt", "it was {mask}"], "no column; expected {text}"),
        "half a brace": ([good, "--prompt", "{text it was {mask}"], "a brace lacks its twin"),
        "half a bracket": ([good, "--prompt", "{text} [it was {mask}"], "a bracket lacks its twin"),
        "nested brackets": ([good, "--prompt", "{text} [[it] was {mask}"], "a bracket lacks its twin"),
        "no name": ([good, "--prompt", "{} it was {mask}"], "{} names no column"),
        "a strange column": ([good, "--prompt", "{words} {mask}", *both], 'no column "words"; expected one of mood'),
        "no second": ([good, "--prompt", "{text} {mask} {second}"], "expected --second COLUMN"),
        "second alone": ([good, "--prompt", "{text} {mask}", "--second", "other"], "the prompt has no {second}"),
        "a text with a mask": (
            [str(write_tsv(tmp_path / "m.tsv", change(table(), 3, text="the [MASK]"))), "--prompt", PROMPT, *both],
            "the prompt has 2 masks; expected one",
        ),
        "an empty text": (
            [str(write_tsv(tmp_path / "e.tsv", change(table(), 7, text=" "))), "--prompt", PROMPT, *both],
            'e.tsv:9: column "text" is empty',
        ),
        "no token": (
            [str(write_tsv(tmp_path / "t.tsv", change(table(), 7, text="\u200b"))), "--prompt", PROMPT, *both],
            "have no token; expected words",
        ),
        "cut off": ([good, "--prompt", PROMPT, *both, "--tokens", "6"], "takes 7 tokens around its texts' first ones"),
        "too many tokens": ([good, "--prompt", PROMPT, *both, "--tokens", "21"], "--tokens 21: expected 3 to 20"),
        "without a word": ([good, "--prompt", PROMPT, "--words", "pos=good"], "the class neg has no word"),
        "a word of no class": ([good, "--prompt", PROMPT, "--words", "joy=good"], "--words joy=…: no such class"),
        "two words": ([good, "--prompt", PROMPT, *both, "pos=very"], "pos has a word already"),
        "no equals": ([good, "--prompt", PROMPT, "--words", "good"], 'words "good": expected CLASS=WORD'),
        "not one token": ([good, "--prompt", PROMPT, "--words", "pos=grand", "neg=bad"], '"grand" is 1 tokens of'),
        "two tokens": ([good, "--prompt", PROMPT, "--words", "pos=very good", "neg=bad"], '"very good" is 2 tokens'),
        "a shared token": ([good, "--prompt", PROMPT, "--words", "pos=Good", "neg=good"], "are one token"),
        "the copy of another model": (
            [good, "--model", str(larger), *grand],
            "was made of another model",
        ),
        "a copy with other words": (
            [good, "--prompt", PROMPT, "--words", "pos=great", "neg=bad", "--new-tokens", str(other)],
            'has no token "great"',
        ),
        "an encoder": ([good, "--model", str(tiny_bert), "--prompt", PROMPT, *both], "is no masked language model"),
        "no prompt": ([good], "is a masked language model; expected --prompt"),
        "words alone": ([good, *both], "--words: belongs to --prompt"),
        "a label sentence": ([good, "--prompt", PROMPT, "--template", "about {}"], "--template: is of label sentences"),
        "a sentence": (
            [good, "--prompt", PROMPT, "--classes", str(tmp_path / "sentences.tsv")],
            "sentences.tsv:1: has a sentence",
        ),
        "no mask in the tokenizer": ([good, "--model", str(maskless), "--prompt", PROMPT, *both], "has no mask"),
    }  # fmt: skip
    for name, (arguments, expected) in cases.items():
        defaults = ["--label", "mood", "--out", str(tmp_path / "out")]
        tokens = [] if "--tokens" in arguments else ["--tokens", "16"]
        model = [] if "--model" in arguments else ["--model", str(masked)]
        assert main(["text", *arguments, *defaults, *tokens, *model]) == 2, name
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and expected in captured.err, (name, captured.err)
        assert not (tmp_path / "out").exists(), name


def test_every_format_gives_the_same_prompts(tmp_path: Path, masked: Path) -> None:
    arguments = ["--prompt", PROMPT, "--words", "pos=good", "neg=bad", "--tokens", "16"]
    inputs = []
    for name, write in (("in.tsv", write_tsv), ("in.jsonl", write_jsonl)):
        with prepared(write(tmp_path / name, table()), masked, tmp_path / "out", *arguments) as file:
            inputs.append(
                [file[f"{split}/{part}"][()].tobytes() for split in SPLIT_NAMES for part in ("inputs", "mask")]
            )
    assert inputs[0] == inputs[1]
    assert isinstance(BertForMaskedLM.from_pretrained(masked), BertForMaskedLM)
