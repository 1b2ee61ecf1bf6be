# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid merge of folders as the field's tools leave them: links, trainers' files, parts, other types."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import launch
import pytest
import torch
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]


def write(folder: Path, tensors: Tensors, config: dict | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "none of ours"}))
    return folder


def merge(
    folder: Path, models: list[str], base: str = "base", method: str = "task_arithmetic", **keys: str
) -> subprocess.CompletedProcess[str]:
    """Merges folders beside the recipe, which it writes, into `folder`/out."""
    keys = {"merge_method": method, "base_model": base, "out": "out"} | keys
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    entries = ", ".join("{ model = " + json.dumps(model) + " }" for model in models)
    (folder / "recipe.toml").write_text("\n".join([*lines, f"models = [ {entries} ]"]) + "\n")
    return launch.run(1, "merge", folder / "recipe.toml")


def merged(folder: Path, models: list[str], **keys: str) -> Tensors:
    done = merge(folder, models, **keys)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return load_file(folder / "out" / "model.safetensors")


def refused(folder: Path, done: subprocess.CompletedProcess[str], *expected: str | Path) -> None:
    launch.complaint(done, *expected)
    assert not (folder / "out").exists() and not list(folder.rglob("*.partial*"))


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_base_of_links_is_copied_as_content(tmp_path: Path) -> None:
    """The hub's cache: snapshots/HASH/NAME leads to ../../blobs/DIGEST, which may be somebody's file from `out`."""
    tensors = {"w": torch.ones(4)}
    blobs, snapshot = tmp_path / "hub/models--x/blobs", tmp_path / "hub/models--x/snapshots/1"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    plain = write(tmp_path / "plain", tensors)
    (plain / "tokenizer.json").write_text('{"version": "1.0"}')
    for number, name in enumerate(("config.json", "model.safetensors", "tokenizer.json")):
        shutil.copy(plain / name, blobs / str(number))
        os.symlink(f"../../blobs/{number}", snapshot / name)
    work = tmp_path / "a/b"
    theirs = tmp_path / "a/blobs/0"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("somebody's own file")
    write(work / "tuned", {"w": torch.full((4,), 2.0)})
    assert torch.equal(merged(work, ["tuned"], base=str(snapshot))["w"], torch.full((4,), 2.0))
    assert theirs.read_text() == "somebody's own file" and files_in(theirs.parent) == ["0"]
    assert files_in(work / "out") == ["config.json", "merge.toml", "model.safetensors", "tokenizer.json"]
    assert not any(path.is_symlink() for path in (work / "out").iterdir())
    assert (work / "out/tokenizer.json").read_bytes() == (plain / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("dangling", [False, True])
def test_a_base_without_a_configuration(tmp_path: Path, dangling: bool) -> None:
    write(tmp_path / "base", {"w": torch.ones(4)})
    write(tmp_path / "m0", {"w": torch.ones(4)})
    config = tmp_path / "base/config.json"
    config.unlink()
    if dangling:
        config.symlink_to("nowhere")
    refused(tmp_path, merge(tmp_path, ["m0"]), "base", "config.json")


def test_side_files_are_those_that_a_model_needs(tmp_path: Path) -> None:
    config = {
        "model_type": "own",
        "auto_map": {
            "AutoConfig": "configuration_own.OwnConfig",
            "AutoModel": "modeling_own.Own",
            "AutoModelForMaskedLM": "else/where--modeling_far.Far",
        },
    }
    base = write(tmp_path / "base", {"w": torch.ones(4)}, config)
    needed = {
        "generation_config.json": "{}",
        "preprocessor_config.json": "{}",
        "special_tokens_map.json": "{}",
        "vocab.txt": "a",
        "spiece.model": "x",
        "chat_template.jinja": "x",
        "additional_chat_templates/tools.jinja": "x",
        "LICENSE.txt": "x",
        "tokenizer_config.json": '{"auto_map": {"AutoTokenizer": ["tokenization_own.Slow", null]}}',
        "configuration_own.py": "",
        "tokenization_own.py": "",
        "modeling_own.py": "from .configuration_own import OwnConfig\nfrom .helper_own import help\n",
        "helper_own.py": "",
    }
    others = {
        "training_args.bin": "x",
        "trainer_state.json": "{}",
        "optimizer.pt": "x",
        "README.md": "x",
        "train.py": "x",
        "adapter_config.json": "{}",
        "modeling_far.py": "",
        "runs/events": "x",
        "checkpoint-5/config.json": "{}",
        "pytorch_model.bin": "x",
        "merged/config.json": "{}",
    }
    for name, text in (needed | others).items():
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text(text)
    write(tmp_path / "m0", {"w": torch.ones(4)})
    merged(tmp_path, ["m0"])
    assert files_in(tmp_path / "out") == sorted([*needed, "config.json", "merge.toml", "model.safetensors"])


@pytest.mark.parametrize("path", ["../elsewhere", "/tmp", "a/b", ".."])
def test_modules_lie_in_the_folder(tmp_path: Path, path: str) -> None:
    base = write(tmp_path / "base", {"w": torch.ones(4)})
    (base / "modules.json").write_text(json.dumps([{"path": ""}, {"path": path}]))
    write(tmp_path / "m0", {"w": torch.ones(4)})
    refused(tmp_path, merge(tmp_path, ["m0"]), "modules.json", "plain name")


def test_a_modules_own_weights_must_be_equal(tmp_path: Path) -> None:
    for name in ("base", "m0"):
        folder = write(tmp_path / name, {"w": torch.ones(4)})
        (folder / "modules.json").write_text('[{"path": ""}, {"path": "2_Dense"}]')
        write(folder / "2_Dense", {"linear.weight": torch.ones(2, 2)})
    assert torch.equal(merged(tmp_path, ["m0"])["w"], torch.ones(4))
    assert files_in(tmp_path / "out/2_Dense") == ["config.json", "model.safetensors"]
    shutil.rmtree(tmp_path / "out")
    write(tmp_path / "m0/2_Dense", {"linear.weight": torch.zeros(2, 2)})
    refused(tmp_path, merge(tmp_path, ["m0"]), "m0/2_Dense/model.safetensors", "not merged")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[" * 100_000, "nested"),
        ("[]", "not a JSON object"),
        ("{", "not a JSON object"),
        ('{"a": [' + "1," * 2_100_000 + "1]}", "values"),
    ],
)
def test_a_configuration_that_is_none(tmp_path: Path, text: str, expected: str) -> None:
    (write(tmp_path / "base", {"w": torch.ones(4)}) / "config.json").write_text(text)
    write(tmp_path / "m0", {"w": torch.ones(4)})
    refused(tmp_path, merge(tmp_path, ["m0"]), "base", "config.json", expected)
