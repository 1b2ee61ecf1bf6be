# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""MODEL+ADAPTER in mergekit's recipes: its own tensors, which it makes of models that PEFT merged before."""

import os
import shutil
from pathlib import Path

import launch
import peer_mergekit
import pytest
import torch
from safetensors.torch import load_file
from test_merge_adapters import make, refused

ADAPTERS = ("models:\n  - {model: base+a0, parameters: {weight: 0.4}}\n"
            "  - {model: base+a1, parameters: {weight: 0.7}}\n")
METHODS = {
    "linear, of which PEFT's model is the base": "merge_method: linear\n",
    "task_arithmetic": "merge_method: task_arithmetic\nbase_model: base\nparameters: {lambda: 0.8}\n",
    "ties": "merge_method: ties\nbase_model: base\nparameters: {density: 0.4, normalize: false}\n",
    "model_stock": "merge_method: model_stock\nbase_model: base\n",
}


def theirs(folder: Path, text: str) -> dict[str, torch.Tensor]:
    """Their folders are named in full."""
    for name in ("base+", "+a0", "+a1", " base\n"):
        text = text.replace(name, name.replace("base", f"{folder}/base").replace("+a", f"+{folder}/a"))
    peer_mergekit.merge(text, folder / "theirs", copy_tokenizer=False, random_seed=0,
                        lora_merge_cache=str(folder / "cache"))
    return load_file(next((folder / "theirs").glob("*.safetensors")))


@pytest.mark.parametrize("method", METHODS)
def test_adapters_are_the_models_that_they_stand_for(tmp_path: Path, method: str) -> None:
    make(tmp_path, "ranks and alphas by module", 2)
    text = ADAPTERS.replace(", parameters: {weight: 0.4}", "").replace(", parameters: {weight: 0.7}", "") \
        if method == "model_stock" else ADAPTERS
    text += METHODS[method] + "dtype: float32\n"
    (tmp_path / "recipe.yml").write_text(text)
    done = launch.run(1, "merge", tmp_path / "recipe.yml", tmp_path / "ours")
    assert done.returncode == 0, done.stderr
    expected, start = theirs(tmp_path, text), load_file(tmp_path / "base/model.safetensors")
    ours = load_file(tmp_path / "ours/model.safetensors")
    changed = 0
    for name, x in expected.items():
        tau = float((x - start[name]).norm())
        changed += tau > 0
        # mergekit's models were rounded to float32 with θ0; at the cut of TIES a number may change its side.
        assert float((ours[name] - x).norm()) <= (2e-2 if method == "ties" else 1e-5) * tau + 1e-6, name
    assert changed >= 6
    again = tmp_path / "again.toml"
    shutil.copy(tmp_path / "ours/merge.toml", again)
    assert launch.run(1, "merge", again, tmp_path / "again").returncode == 0
    assert (tmp_path / "again/model.safetensors").read_bytes() == (tmp_path / "ours/model.safetensors").read_bytes()


@pytest.mark.parametrize(("text", "expected"), [
    (ADAPTERS + "merge_method: slerp\nbase_model: base\n", ["base+a0", "slerp takes the models' own numbers"]),
    (ADAPTERS + "merge_method: ties\n", ["base+a0", "no base_model", "base_model: base"]),
    (ADAPTERS.replace("base+a1", "other+a1") + "merge_method: linear\n", ["other+a1", "the others are of"]),
    (ADAPTERS + "merge_method: ties\nbase_model: other\n", ["base+a0", "other", "one base_model"]),
    (ADAPTERS + "merge_method: task_arithmetic\nbase_model: base+a0\n", ["base_model", "a whole model here"]),
    (ADAPTERS.replace("base+a1", "base+other") + "merge_method: linear\n", ["base+other", "holds no adapter"]),
    (ADAPTERS.replace("base+a1", "none/at all+a1") + "merge_method: linear\n", ["none/at all", "downloaded first"]),
])
def test_adapters_that_stand_for_no_model_here(tmp_path: Path, text: str, expected: list[str]) -> None:
    make(tmp_path, "alpha that is not the rank", 2)
    shutil.copytree(tmp_path / "base", tmp_path / "other")
    (tmp_path / "recipe.yml").write_text(text)
    refused(tmp_path, launch.run(1, "merge", tmp_path / "recipe.yml", tmp_path / "out"), "recipe.yml:", *expected)


def test_a_folder_whose_name_has_a_plus(tmp_path: Path) -> None:
    make(tmp_path, "alpha that is not the rank", 1)
    os.rename(tmp_path / "base", tmp_path / "base+tuned")
    (tmp_path / "recipe.yml").write_text("models: [{model: base+tuned}]\nmerge_method: passthrough\n")
    done = launch.run(1, "merge", tmp_path / "recipe.yml", tmp_path / "out")
    assert done.returncode == 0, done.stderr
