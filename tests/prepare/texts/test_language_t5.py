# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The small T5's tokenizer and tasks, of synthetic texts."""

import json
from pathlib import Path

import h5py
import pytest
from tokenizers import Tokenizer

from texts import language_t5
from texts.language_sources import Texts

ROWS = 720


class Synthetic(dict[str, object]):
    """A source for every task: texts of any of its labels."""

    def __init__(self) -> None:
        self.calls = 0

    def __missing__(self, read: str) -> object:
        def texts(_packages: Path, task: dict) -> Texts:
            self.calls += 1
            labels = [match for _, match, _ in task["classes"]]
            out = Texts()
            for row in range(ROWS):
                out.add(f"Text {row} of {read}, {labels[row % len(labels)]}!", labels[row % len(labels)], str(row))
            return out

        return texts


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out, lines, source = tmp_path_factory.mktemp("t5"), list[str](), Synthetic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language_t5, "SOURCES", source)
        for _ in range(2):
            language_t5.prepare(out, out, lines.append)
    assert source.calls == len(language_t5.TASKS) + len(language_t5.START)  # once each
    assert sum("unchanged" in line for line in lines) == len(language_t5.TASKS) + 1
    return out


def test_the_tokenizer_fits_the_model_and_knows_every_answer(packed: Path) -> None:
    config = json.loads((packed / "model" / "config.json").read_text())
    assert config == json.loads(language_t5.CONFIG.read_text())
    tokenizer = Tokenizer.from_file(str(packed / "model" / "tokenizer.json"))
    assert [tokenizer.id_to_token(i) for i in range(3)] == ["<pad>", "</s>", "<unk>"]
    assert tokenizer.get_vocab_size() <= config["vocab_size"]
    assert config["pad_token_id"] == 0 and config["eos_token_id"] == 1
    for name in ("start", *language_t5.TASKS):
        with h5py.File(packed / f"{name}.h5") as file:
            assert file["head"].attrs["kind"] == "sequences"
            for word, ids, length in zip(
                file["head"].attrs["words"], file["head/tokens"][()], file["head/lengths"][()], strict=True
            ):
                assert tokenizer.decode(ids[:length].tolist()) == word and ids[length - 1] == 1


def test_a_prompt_names_its_task_and_keeps_its_beginning(packed: Path) -> None:
    tokenizer = Tokenizer.from_file(str(packed / "model" / "tokenizer.json"))
    with h5py.File(packed / "foldoc_topic.h5") as file:
        length = file["test/lengths"][0]
        ids = file["test/inputs"][0][:length].tolist()
        assert length <= language_t5.TOKENS and ids[-1] == 1
    assert tokenizer.decode(ids).startswith("foldoc topic : text")


def test_the_start_has_each_answer_once_and_no_measured_task(packed: Path) -> None:
    assert not set(language_t5.START) & set(language_t5.TASKS)
    with h5py.File(packed / "start.h5") as file:
        words = list(file["head"].attrs["words"])
        assert len(words) == len(set(words)) and {"noun", "verb", "positive", "negative"} <= set(words)
        keys = [set(file[f"{split}/split_key"][()].tolist()) for split in ("train", "validation", "test")]
        assert not keys[0] & keys[1] and not keys[0] & keys[2] and not keys[1] & keys[2]
