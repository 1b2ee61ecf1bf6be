# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merged models as LoRA adapters, and adapters of a model's difference from its base (taugrid extract): PEFT loads them
onto the base, and gives the merged model, or the nearest one of that rank, which NumPy's SVD finds here."""

import json
import math
import os
import re
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

import launch
import numpy as np
import pytest
import test_merge_adapters as adapters
import torch
import transformers
from peft import PeftModel
from safetensors.torch import load_file, save_file
from test_merge_adapters import KINDS, bert, gpt2, llama, make, merge, refused, tensors, written_out

Tensors = dict[str, torch.Tensor]


def by_peft(folder: Path, out: str, base: transformers.PreTrainedModel) -> Tensors:
    """The base with the adapter, as PEFT loads and merges it."""
    model = type(base).from_pretrained(folder / "base", dtype=torch.float32)
    loaded = PeftModel.from_pretrained(model, folder / out)
    return {name: x.clone() for name, x in loaded.merge_and_unload().state_dict().items()}


def errors_told(folder: Path) -> dict[str, tuple[int, float]]:
    """Rank and relative error of each matrix, as merge.toml has them."""
    matches = re.findall(r'^# "(\S+)": rank (\d+), relative error (\S+)$', (folder / "merge.toml").read_text(), re.M)
    return {name: (int(rank), float(error)) for name, rank, error in matches}


@pytest.mark.parametrize("kind", KINDS)
def test_exactly_at_the_rank_of_all_together(tmp_path: Path, kind: str) -> None:
    base = make(tmp_path, kind, 3)
    models = ["a0", "a1", "a2"]
    for out, more in (("whole", "[parameters]\nlambda = 0.7"), ("out", "[parameters]\nlambda = 0.7\n[adapter]")):
        done = merge(tmp_path, models, out, more=more)
        assert done.returncode == 0, done.stderr
    start = tensors(tmp_path / "base")
    each = [written_out(tmp_path, name) for name in models]
    expected = {
        name: x.double() + 0.7 * sum((0.5 + 0.4 * i) * (adapted[name] - x.double()) for i, adapted in enumerate(each))
        for name, x in start.items()}
    theirs = by_peft(tmp_path, "out", base)
    whole = tensors(tmp_path / "whole")
    for name, x in expected.items():
        torch.testing.assert_close(theirs[name].double(), x, rtol=2e-6, atol=2e-6, msg=name)
        torch.testing.assert_close(theirs[name], whole[name], rtol=2e-6, atol=2e-6, msg=name)
    errors = errors_told(tmp_path / "out")
    assert errors and all(error < 1e-6 for _, error in errors.values())
    ranks = {name: sum(len(x) for model in models
                       for key, x in load_file(tmp_path / model / "adapter_model.safetensors").items()
                       if key.startswith(f"base_model.model.{name.removesuffix('.weight')}.lora_") and "_A" in key)
             for name in errors}
    assert {name: rank for name, (rank, _) in errors.items()} == {
        name: min(rank, *start[name].flatten(1).shape) for name, rank in ranks.items()}
    assert not list((tmp_path / "out").glob("*vectors*"))


def test_it_is_a_model_of_a_recipe_again(tmp_path: Path) -> None:
    make(tmp_path, "ranks and alphas by module", 3)
    assert merge(tmp_path, ["a0", "a1", "a2"], "out", more="[adapter]").returncode == 0
    assert merge(tmp_path, ["a0", "a1", "a2"], "whole").returncode == 0
    again = tmp_path / "again.toml"
    again.write_text('merge_method = "linear"\nbase_model = "base"\nout = "again"\nmodels = [ { model = "out" } ]\n')
    assert launch.run(1, "merge", again).returncode == 0
    for name, x in tensors(tmp_path / "whole").items():
        torch.testing.assert_close(tensors(tmp_path / "again")[name], x, rtol=2e-6, atol=2e-6)
    # merge.toml makes the same bytes.
    files = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    recipe = tmp_path / "recipe.toml"
    recipe.write_bytes(files["merge.toml"])
    shutil.rmtree(tmp_path / "out")
    assert launch.run(1, "merge", recipe).returncode == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == files


@pytest.mark.parametrize(("method", "more"), [
    ("linear", ""),
    ("ties", "[parameters]\ndensity = 0.3\n"),  # the cut is of all tensors together
    ("tsv_m", '[parameters]\nspace = "core"\n'),
])
def test_a_rank_keeps_the_nearest_matrix(tmp_path: Path, method: str, more: str) -> None:
    rank = 4
    base = make(tmp_path, "rsLoRA", 3)
    models = ["a0", "a1", "a2"]
    for out, end in (("whole", ""), ("out", f"[adapter]\nrank = {rank}\n")):
        done = merge(tmp_path, models, out, method, more + end)
        assert done.returncode == 0, done.stderr
    start, whole, theirs = tensors(tmp_path / "base"), tensors(tmp_path / "whole"), by_peft(tmp_path, "out", base)
    errors = errors_told(tmp_path / "out")
    assert set(errors) == {name for name in start if "_proj" in name}
    for name, (kept, error) in errors.items():
        delta = (whole[name] - start[name]).double().numpy()
        u, s, vh = np.linalg.svd(delta, full_matrices=False)
        nearest = (u[:, :rank] * s[:rank]) @ vh[:rank]
        assert kept == rank
        assert error == pytest.approx(math.sqrt((s[rank:] ** 2).sum() / (s**2).sum()), rel=1e-3)
        change = (theirs[name] - start[name]).double().numpy()
        assert np.linalg.norm(change - nearest) < 1e-4 * np.linalg.norm(delta), name
    assert f"of rank {rank}" in done.stdout
    config = json.loads((tmp_path / "out/adapter_config.json").read_text())
    assert config["r"] == config["lora_alpha"] == rank and "rank_pattern" not in config


def tuned(folder: Path, make_model: Any, seed: int = 3, dtype: torch.dtype = torch.float32,
          ) -> transformers.PreTrainedModel:
    """folder/base, and folder/tuned, of which every tensor differs from it."""
    torch.manual_seed(seed)
    base = make_model().to(dtype)
    base.save_pretrained(folder / "base")
    with torch.no_grad():
        for parameter in base.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    base.save_pretrained(folder / "tuned")
    return base


def extract(folder: Path, *options: str, out: str = "out") -> subprocess.CompletedProcess[str]:
    return launch.run(1, "extract", folder / "base", folder / "tuned", folder / out, *options)


def qwen() -> transformers.PreTrainedModel:
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**adapters.SMALL, tie_word_embeddings=False))


@pytest.mark.parametrize("model", [llama, gpt2, bert, qwen])
def test_extracted_by_rank(tmp_path: Path, model: Any) -> None:
    """Matrices of layers are the nearest of their rank, all else is the model's own: norms, biases, embeddings."""
    rank = 6
    base = tuned(tmp_path, model)
    done = extract(tmp_path, "--rank", str(rank))
    assert done.returncode == 0, done.stderr
    start, model_itself = tensors(tmp_path / "base"), tensors(tmp_path / "tuned")
    theirs, errors = by_peft(tmp_path, "out", base), errors_told(tmp_path / "out")
    assert len(errors) > 6
    for name, x in model_itself.items():
        if name not in errors:
            assert torch.equal(theirs[name], x), name
            continue
        delta = (x - start[name]).double().numpy()
        u, s, vh = np.linalg.svd(delta, full_matrices=False)
        nearest = (u[:, :rank] * s[:rank]) @ vh[:rank]
        change = (theirs[name] - start[name]).double().numpy()
        assert np.linalg.norm(change - nearest) < 1e-5 * np.linalg.norm(delta), name
        assert errors[name] == (rank, pytest.approx(np.linalg.norm(delta - nearest) / np.linalg.norm(delta), rel=1e-3))
    assert all("norm" not in name.lower() and "embed" not in name for name in errors)


@pytest.mark.parametrize(("share", "rank"), [(0.6, 0), (0.95, 0), (0.95, 7)])
def test_extracted_by_share(tmp_path: Path, share: float, rank: int) -> None:
    """The least rank of each matrix that keeps the share of its squared norm."""
    base = tuned(tmp_path, llama)
    done = extract(tmp_path, "--share", str(share), *(["--rank", str(rank)] if rank else []))
    assert done.returncode == 0, done.stderr
    start, model_itself = tensors(tmp_path / "base"), tensors(tmp_path / "tuned")
    theirs, errors = by_peft(tmp_path, "out", base), errors_told(tmp_path / "out")
    for name, (kept, error) in errors.items():
        s = np.linalg.svd((model_itself[name] - start[name]).double().numpy(), compute_uv=False)
        energy = np.cumsum(s**2) / (s**2).sum()
        least = int(np.argmax(energy >= share)) + 1
        assert kept == (min(least, rank) if rank else least), name
        assert error == pytest.approx(math.sqrt(1 - energy[kept - 1]), rel=1e-3)
        apart = float((theirs[name] - model_itself[name]).norm() / (model_itself[name] - start[name]).norm())
        assert apart == pytest.approx(error, rel=1e-3)
    assert len({kept for kept, _ in errors.values()}) > 1 or rank


def test_types_and_frozen_matrices(tmp_path: Path) -> None:
    """Factors in the type that is asked for, whole tensors too; what did not change is not there."""
    base = tuned(tmp_path, llama, dtype=torch.bfloat16)
    start, changed = tensors(tmp_path / "base"), tensors(tmp_path / "tuned")
    frozen = {name for name in changed if "layers.0" in name or name == "lm_head.weight"}
    save_file(changed | {name: start[name] for name in frozen}, tmp_path / "tuned/model.safetensors", {"format": "pt"})
    assert extract(tmp_path, "--rank", "24", "--dtype", "bfloat16").returncode == 0
    file = load_file(tmp_path / "out/adapter_model.safetensors")
    assert {x.dtype for x in file.values()} == {torch.bfloat16}
    assert not any("layers.0" in name or "lm_head" in name for name in file)
    errors = errors_told(tmp_path / "out")
    assert set(errors) == {name for name in start if "layers.1" in name and "_proj" in name}
    assert all(1e-4 < error < 1e-2 for _, error in errors.values())  # the rounding of factors in bfloat16
    theirs = by_peft(tmp_path, "out", base)
    for name, (_, error) in errors.items():
        x = start[name].double()
        apart = (theirs[name].double() - tensors(tmp_path / "tuned")[name].double()).norm()
        assert float(apart / (tensors(tmp_path / "tuned")[name].double() - x).norm()) == pytest.approx(error, rel=0.02)


@pytest.mark.parametrize("said", [True, False])
def test_what_peft_has_no_place_for_is_said(tmp_path: Path, said: bool) -> None:
    """Tied embeddings, also where the configuration leaves that to transformers' default; parameters of no layer."""
    tuned(tmp_path, lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**adapters.SMALL, tie_word_embeddings=True)))
    if not said:
        path = tmp_path / "base/config.json"
        config = json.loads(path.read_text())
        del config["tie_word_embeddings"]
        path.write_text(json.dumps(config))
    done = extract(tmp_path, "--rank", "4")
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if "embed_tokens.weight" in line)
    assert "is not in the adapter" in line and "tied" in line
    assert line in (tmp_path / "out/merge.toml").read_text()
    assert not any("embed" in name for name in load_file(tmp_path / "out/adapter_model.safetensors"))
    sizes = adapters.SMALL | {"image_size": 8, "patch_size": 4, "projection_dim": 12}
    del sizes["vocab_size"]
    tuned(tmp_path / "clip", lambda: transformers.CLIPVisionModelWithProjection(
        transformers.CLIPVisionConfig(**sizes)))
    done = extract(tmp_path / "clip", "--rank", "4")
    assert done.returncode == 0 and 'class_embedding": differs' in done.stdout, done.stdout + done.stderr
    assert "visual_projection.weight" in errors_told(tmp_path / "clip/out")


@pytest.mark.parametrize(("models", "method", "more", "expected"), [
    (["a0", "w1"], "task_arithmetic", "[adapter]", ["adapter", "not all models are adapters"]),
    (["a0", "a1"], "ties", "[parameters]\ndensity = 0.3\n[adapter]", ["adapter", "ties", "expected a rank or a share"]),
    (["a0", "a1"], "task_arithmetic", "[adapter]\nrank = -1", ["adapter.rank"]),
    (["a0", "a1"], "task_arithmetic", "[adapter]\nshare = 0", ["adapter.share"]),
    (["a0", "a1"], "task_arithmetic", "[adapter]\nshar = 0.5", ["shar", "share"]),
    (["w0", "w1"], "linear", "[parameters]\nnormalize = false\n[adapter]\nrank = 2", ["adapter", "linear"]),
])
def test_recipes_that_give_no_adapter(
    tmp_path: Path, models: list[str], method: str, more: str, expected: list[str]
) -> None:
    make(tmp_path, "alpha that is not the rank", 2)
    for i in range(2):
        shutil.copytree(tmp_path / "base", tmp_path / f"w{i}")
    refused(tmp_path, merge(tmp_path, models, "out", method, more), *expected)


def test_interpolation_of_models_less_the_base(tmp_path: Path) -> None:
    """A method on the models themselves: the merged model's difference from the base."""
    tuned(tmp_path, llama)
    tuned(tmp_path / "other", llama, 8)
    recipe = tmp_path / "recipe.toml"
    text = ('merge_method = "slerp"\nbase_model = "base"\nout = "whole"\nparameters = { t = 0.3 }\n'
            'models = [ { model = "tuned" }, { model = "other/tuned" } ]\n')
    recipe.write_text(text)
    assert launch.run(1, "merge", recipe).returncode == 0
    recipe.write_text(text.replace("whole", "out") + "adapter = { rank = 40 }\n")
    done = launch.run(1, "merge", recipe)
    assert done.returncode == 0, done.stderr
    theirs = by_peft(tmp_path, "out", llama())
    for name, x in tensors(tmp_path / "whole").items():
        torch.testing.assert_close(theirs[name], x, rtol=1e-5, atol=1e-5, msg=name)


def test_extract_refuses(tmp_path: Path) -> None:
    tuned(tmp_path, llama)
    refused(tmp_path, extract(tmp_path), "--rank", "--share")
    refused(tmp_path, launch.run(1, "extract", tmp_path / "base", tmp_path / "base", tmp_path / "out", "--rank", "2"),
            "is the base itself")
    refused(tmp_path, launch.run(1, "extract", tmp_path / "base", tmp_path / "none", tmp_path / "out", "--rank", "2"),
            "none")
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a file").touch()
    done = extract(tmp_path, "--rank", "2", out="there")
    assert done.returncode == 2 and "is there already" in done.stderr
    norms = tensors(tmp_path / "base") | {
        name: x for name, x in tensors(tmp_path / "tuned").items() if "norm" in name}
    save_file(norms, tmp_path / "tuned/model.safetensors", {"format": "pt"})
    refused(tmp_path, extract(tmp_path, "--rank", "2"), "no matrix of a layer differs")


@pytest.mark.parametrize("method", ["task_arithmetic", "ties"])
def test_nothing_is_half_there(tmp_path: Path, method: str) -> None:
    make(tmp_path, "alpha that is not the rank", 2)
    path = tmp_path / "recipe.toml"
    path.write_text(f'merge_method = "{method}"\nbase_model = "base"\nout = "out"\nmodels = [ {{ model = "a0" }}, '
                    '{ model = "a1" } ]\nadapter = { rank = 2 }\n')
    before = set(os.listdir(tmp_path))
    done = subprocess.run([launch.PROGRAM, "merge", path], env=launch.environment(), text=True, capture_output=True,
                          check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)))
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert set(os.listdir(tmp_path)) == before


def test_a_modules_name_that_is_the_end_of_anothers(tmp_path: Path) -> None:
    """PEFT takes names in rank_pattern for ends of names, unless they stand behind ^."""
    torch.manual_seed(0)
    names = {"layers.0.q": 1, "enc.layers.0.q": 2, "enc.layers.0.v": 4}
    base = {f"{name}.weight": torch.randn(8, 8) for name in names}
    changes = {f"{name}.weight": torch.randn(8, rank) @ torch.randn(rank, 8) for name, rank in names.items()}
    for name, tensors_of in (("base", base), ("tuned", {key: x + changes[key] for key, x in base.items()})):
        (tmp_path / name).mkdir()
        save_file(tensors_of, tmp_path / name / "model.safetensors")
        (tmp_path / name / "config.json").write_text('{"model_type": "none of ours"}')
    assert extract(tmp_path, "--rank", "4").returncode == 0
    config = json.loads((tmp_path / "out/adapter_config.json").read_text())
    assert config["r"] == 4 and config["rank_pattern"] == {"^layers.0.q": 1, "enc.layers.0.q": 2}
    assert config["alpha_pattern"] == {"^layers.0.q": 1, "enc.layers.0.q": 2}
    recipe = tmp_path / "again.toml"
    recipe.write_text('merge_method = "linear"\nbase_model = "base"\nout = "again"\nmodels = [ { model = "out" } ]\n')
    assert launch.run(1, "merge", recipe).returncode == 0
    for key, x in tensors(tmp_path / "again").items():
        torch.testing.assert_close(x - base[key], changes[key], rtol=1e-4, atol=1e-4)
