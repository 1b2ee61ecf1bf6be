# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""pytorch_model.bin to safetensors: what transformers reads of both is the same, and no pickle's code is run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from command import main


def bert(folder: Path, legacy: bool = False) -> dict[str, torch.Tensor]:
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(1)
    sizes = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertForMaskedLM(BertConfig(**sizes, vocab_size=30, max_position_embeddings=9))
    folder.mkdir(parents=True)
    model.config.architectures = ["BertForMaskedLM"]
    model.config.save_pretrained(folder)
    (folder / "vocab.txt").write_text("a\n")
    (folder / "trainer_state.json").write_text("{}")
    torch.save(model.state_dict(), folder / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
    return model.state_dict()


def converted(source: Path, out: Path) -> int:
    return main(["convert-model", "--from", str(source), "--out", str(out)])


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_becomes_safetensors(tmp_path: Path, legacy: bool) -> None:
    from transformers import BertForMaskedLM

    held = bert(tmp_path / "a", legacy)
    assert converted(tmp_path / "a", tmp_path / "out") == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "config.json", "model.safetensors", "vocab.txt"
    ]  # fmt: skip
    stored = load_file(tmp_path / "out/model.safetensors")
    assert stored.keys() == held.keys() and all(torch.equal(stored[name], held[name]) for name in held)
    read = BertForMaskedLM.from_pretrained(tmp_path / "out").state_dict()
    assert all(torch.equal(read[name], held[name]) for name in held)


def test_parts_become_one_file(tmp_path: Path) -> None:
    held = bert(tmp_path / "a")
    (tmp_path / "a/pytorch_model.bin").unlink()
    files = {name: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, name in enumerate(held)}
    for file in set(files.values()):
        torch.save({name: x for name, x in held.items() if files[name] == file}, tmp_path / "a" / file)
    (tmp_path / "a/pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))
    assert converted(tmp_path / "a", tmp_path / "out") == 0
    stored = load_file(tmp_path / "out/model.safetensors")
    assert stored.keys() == held.keys() and all(torch.equal(stored[name], held[name]) for name in held)


class Harm:
    def __reduce__(self) -> tuple[Callable, tuple[str]]:
        return Path.touch, (Path("harm"),)


WRONG = {
    "code": (lambda folder: torch.save({"w": Harm()}, folder / "pytorch_model.bin"), ["pytorch_model.bin"]),
    "module": (lambda folder: torch.save(torch.nn.Linear(2, 2), folder / "pytorch_model.bin"), ["pytorch_model.bin"]),
    "no_tensor": (lambda folder: torch.save({"w": 3}, folder / "pytorch_model.bin"), ["w is a int"]),
    "repeated": (lambda folder: torch.save({"w": torch.zeros(1).expand(1 << 42)}, folder / "pytorch_model.bin"),
                 ["w repeats few numbers"]),
    "sparse": (lambda folder: torch.save({"w": torch.eye(3).to_sparse()}, folder / "pytorch_model.bin"),
               ["w is sparse_coo"]),
    "meta": (lambda folder: torch.save({"w": torch.empty(3, device="meta")}, folder / "pytorch_model.bin"),
             ["on meta"]),
    "complex": (lambda folder: torch.save({"w": torch.zeros(2, dtype=torch.complex128)},
                                          folder / "pytorch_model.bin"), ["complex128"]),
    "list": (lambda folder: torch.save([torch.ones(2)], folder / "pytorch_model.bin"), ["holds a list"]),
    "text": (lambda folder: (folder / "pytorch_model.bin").write_text("version https://git-lfs"), ["damaged"]),
    "none": (lambda folder: (folder / "pytorch_model.bin").unlink(), ["neither"]),
    "no_config": (lambda folder: (folder / "config.json").unlink(), ["config.json"]),
    "cut": (
        lambda folder: (folder / "pytorch_model.bin").write_bytes((folder / "pytorch_model.bin").read_bytes()[:-900]),
        ["damaged"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_dictionary_of_tensors_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bert(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    spoil, expected = WRONG[name]
    spoil(tmp_path / "a")
    assert converted(tmp_path / "a", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and "expected" in said and len(said) <= 501, said
    assert all(text in said for text in [*expected, str(tmp_path / "a")]), said
    assert not (tmp_path / "out").exists() and not (tmp_path / "harm").exists()


@pytest.mark.parametrize("index", ["{", "[]", '{"weight_map": {"w": "../x.bin"}}', '{"weight_map": 3}', "[" * 100_000])
def test_a_wrong_index_is_refused(index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bert(tmp_path / "a")
    (tmp_path / "a/pytorch_model.bin").unlink()
    (tmp_path / "a/pytorch_model.bin.index.json").write_text(index)
    assert converted(tmp_path / "a", tmp_path / "out") == 2
    assert "pytorch_model.bin.index.json" in capsys.readouterr().err


def test_the_input_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bert(tmp_path / "a")
    assert converted(tmp_path / "a", tmp_path / "a") == 2
    assert "is the input" in capsys.readouterr().err
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert converted(tmp_path / "a", tmp_path / "out") == 0 and converted(tmp_path / "b", tmp_path / "out") == 0
    (tmp_path / "b/vocab.txt").write_text("other\n")
    assert converted(tmp_path / "b", tmp_path / "out") == 2
    assert "--replace" in capsys.readouterr().err
