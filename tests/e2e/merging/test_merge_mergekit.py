# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid merge beside mergekit's own command, on the same folders as transformers lays them out.

Both compute in float32 with the same roundings, so that all numbers are equal.
"""

from collections.abc import Callable
from pathlib import Path

import launch
import peer_mergekit
import pytest
import torch
import transformers
import yaml
from safetensors.torch import load_file

WEIGHTS = (0.3, 0.6)
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TEXT = SMALL | {"vocab_size": 100}
LAYOUTS: dict[str, tuple[type, Callable[[], transformers.PretrainedConfig], dict]] = {
    "a tower of CLIP": (
        transformers.CLIPVisionModelWithProjection,
        lambda: transformers.CLIPVisionConfig(**SMALL, image_size=32, patch_size=16, projection_dim=16),
        {},
    ),
    "RoBERTa with its tied head": (transformers.RobertaForMaskedLM, lambda: transformers.RobertaConfig(**TEXT), {}),
    "Llama in parts": (
        transformers.LlamaForCausalLM,
        lambda: transformers.LlamaConfig(**TEXT),
        {"max_shard_size": "20KB"},
    ),
}


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    parts = [load_file(path) for path in sorted(folder.glob("*.safetensors"))]
    return {name: tensor for part in parts for name, tensor in part.items()}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("method", ["linear", "task_arithmetic"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_are_mergekits(tmp_path: Path, layout: str, method: str, dtype: str) -> None:
    model, configuration, saving = LAYOUTS[layout]
    for seed, name in enumerate(("base", "first", "second")):
        torch.manual_seed(seed)
        network = model(configuration()).to(getattr(torch, dtype))
        network.save_pretrained(tmp_path / name, **saving)
    entries = [
        {"model": str(tmp_path / name), "parameters": {"weight": weight}}
        for name, weight in zip(("first", "second"), WEIGHTS, strict=True)
    ]
    recipe = {"merge_method": method, "models": entries, "dtype": "float32", "out_dtype": dtype}
    if method != "linear":
        recipe["base_model"] = str(tmp_path / "base")
    peer_mergekit.merge(yaml.safe_dump(recipe), tmp_path / "theirs", copy_tokenizer=False)

    models = ", ".join(
        f'{{ model = "{name}", weight = {weight} }}' for name, weight in zip(("first", "second"), WEIGHTS, strict=True)
    )
    (tmp_path / "recipe.toml").write_text(
        f'merge_method = "{method}"\nbase_model = "base"\nout = "ours"\ndtype = "{dtype}"\nmodels = [ {models} ]\n'
    )
    done = launch.run(1, "merge", tmp_path / "recipe.toml")
    assert done.returncode == 0, done.stderr

    ours, theirs = tensors(tmp_path / "ours"), tensors(tmp_path / "theirs")
    assert set(ours) == set(theirs) == set(tensors(tmp_path / "base"))
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype == getattr(torch, dtype)
        assert peer_mergekit.is_same(ours[name], tensor), name
