# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid diff: every figure of it by numpy in double, and the picture that the analysis makes of its file."""

import json
import subprocess
from pathlib import Path

import analysis_command
import launch
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40, "vocab_size": 50}
TIED = "model.embed_tokens.weight"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """base, a and b, of which b is in bfloat16 and in parts, and lacks nothing."""
    torch.manual_seed(1)
    base = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))
    for name, more in (("base", {}), ("a", {}), ("b", {"max_shard_size": "10KB"})):
        torch.manual_seed(len(name))
        with torch.no_grad():
            for key, parameter in base.named_parameters():
                if name != "base" and "norm" not in key:
                    parameter.add_(0.01 * torch.randn_like(parameter))
        (base.to(torch.bfloat16) if name == "b" else base).save_pretrained(tmp_path / name, **more)
    return tmp_path


def tensors(folder: Path) -> dict[str, np.ndarray]:
    parts = [load_file(path) for path in sorted(folder.glob("model*.safetensors"))]
    return {name: x.float().numpy().astype(np.float64) for part in parts for name, x in part.items()}


def diff(*arguments: object) -> subprocess.CompletedProcess[str]:
    return launch.run(1, "diff", *arguments)


def refused(done: subprocess.CompletedProcess[str], *expected: str) -> None:
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert all(text in done.stderr for text in expected), done.stderr


@pytest.mark.parametrize("with_base", [False, True])
def test_figures_are_those_of_the_numbers(models: Path, with_base: bool) -> None:
    out = models / "diff.json"
    base = ["--base", models / "base"] if with_base else []
    done = diff(models / "a", models / "b", "--json", out, *base)
    assert done.returncode == 0, done.stderr
    difference = json.loads(out.read_text())
    start, a, b = (tensors(models / name) for name in ("base", "a", "b"))
    assert [entry["name"] for entry in difference["tensors"]] == sorted(a)
    assert not (difference["only_in_a"] or difference["only_in_b"] or difference["other_shapes"])
    for entry in [*difference["tensors"], difference["whole"] | {"name": None}]:
        keys = [entry["name"]] if entry["name"] else sorted(a)
        w, x, y = (np.concatenate([side[key].ravel() for key in keys]) for side in (start, a, b))
        x, y = (x - w, y - w) if with_base else (x, y)
        x, y = x.astype(np.float32).astype(float), y.astype(np.float32).astype(float)
        close = {"norm_a": np.linalg.norm(x), "norm_b": np.linalg.norm(y), "norm_of_difference": np.linalg.norm(y - x),
                 "largest_difference": np.abs(y - x).max(), "norm_base": np.linalg.norm(w) if with_base else 0}
        for name, value in close.items():
            assert entry[name] == pytest.approx(value, rel=2e-6, abs=1e-12), (entry["name"], name)
        if np.linalg.norm(x) * np.linalg.norm(y) > 0:
            cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
            assert entry["cosine"] == pytest.approx(cosine, abs=1e-6)
            assert entry["relative_difference"] == pytest.approx(np.linalg.norm(y - x) / np.linalg.norm(x), rel=2e-6)
        else:
            assert entry["cosine"] is None
        assert entry["numbers"] == x.size and entry["not_finite"] == 0
        assert entry["equal"] == (x == y).sum() and entry["opposed_signs"] == (x * y < 0).sum()
    kinds = {entry["kind"]: entry["layer"] for entry in difference["tensors"]}
    assert kinds["model.layers.*.mlp.up_proj.weight"] == 1 and kinds["model.norm.weight"] is None
    assert {entry["type_b"] for entry in difference["tensors"]} == {"BFloat16"}


@pytest.mark.parametrize(("by", "rows"), [
    ("kind", ["model.layers.*.self_attn.q_proj.weight 2 ", "lm_head.weight 1 ", "all 21 "]),
    ("layer", ["outside layers 3 ", "layer 0 9 ", "layer 1 9 "]),
    ("tensor", ["model.layers.0.mlp.down_proj.weight 1 ", "model.layers.1.mlp.down_proj.weight 1 "]),
])
def test_the_table(models: Path, by: str, rows: list[str]) -> None:
    done = diff(models / "a", models / "b", "--by", by)
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for row in rows:
        assert any(line.startswith(row) for line in lines), done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) < 140


def test_equal_models_and_what_one_side_lacks(models: Path) -> None:
    done = diff(models / "a", models / "a")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("all "))
    assert line.split()[4:] == ["0", "1", "0.0", "100.0"], line
    changed = load_file(models / "a/model.safetensors")
    changed["extra\x1b[31m"] = torch.ones(2)
    changed["model.norm.weight"] = torch.ones(5)
    del changed["lm_head.weight"]
    changed["model.layers.0.mlp.up_proj.weight"][0, :3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    save_file(changed, models / "a/model.safetensors", {"format": "pt"})
    done = diff(models / "base", models / "a", "--by", "tensor")
    assert done.returncode == 0 and "\x1b" not in done.stdout
    assert "only in a: lm_head.weight" in done.stdout and "only in b: extra\\x1b[31m" in done.stdout
    assert "of other shapes: model.norm.weight [24] and [5]" in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("model.layers.0.mlp.up_proj.weight"))
    assert line.endswith("3 NaN or infinity") and "nan" not in line
    refused(diff(models / "base", models / "b", "--base", models / "a"), "a", "lm_head.weight", "base of both")


def test_wrong_input(models: Path) -> None:
    refused(diff(models / "a", models / "nowhere"), "nowhere", "is no folder")
    refused(diff(models / "a", models / "b", "--by", "colour"), "--by", "kind")
    (models / "other").mkdir()
    save_file({"x": torch.ones(3)}, models / "other/model.safetensors")
    refused(diff(models / "a", models / "other"), "no floating-point tensor of one name", "one architecture")


def test_figures_do_not_take_the_place_of_what_is_compared(models: Path) -> None:
    """Nor of anything else in the models' folders, by whatever way they are named."""
    before = {path: path.read_bytes() for path in models.rglob("*") if path.is_file()}
    (models / "link").symlink_to("b")
    for place in ("b/model.safetensors", "base/config.json", "a/new.json", "link/new.json", "x/../b/new.json"):
        (models / "x").mkdir(exist_ok=True)
        refused(diff(models / "a", models / "b", "--base", models / "base", "--json", models / place), place,
                "which is read")
    assert {path: path.read_bytes() for path in models.rglob("*") if path.is_file()} == before


def test_the_picture(models: Path) -> None:
    out, picture = models / "diff.json", models / "diff.png"
    assert diff(models / "a", models / "b", "--base", models / "base", "--json", out).returncode == 0
    done = analysis_command.called("differences", out, "--out", picture)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000
    difference = json.loads(out.read_text())
    for wrong in (difference | {"schema_version": 9}, difference | {"tensors": [{}]}, difference | {"tensors": 3}, [],
                  {}, difference | {"tensors": [difference["tensors"][0] | {"norm_a": "x"}]}):
        out.write_text(json.dumps(wrong))
        done = analysis_command.called("differences", out, "--out", picture)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and str(out) in done.stderr, done.stderr
