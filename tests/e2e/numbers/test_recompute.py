# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`recompute` on what the program wrote: every group holds, and what is wrong in a run folder is found."""

import math
import shutil
import subprocess
from pathlib import Path

import analysis_command
import h5py
import numpy as np
import pytest
import torch
from launch import measure
from taugrid_analysis.recompute import draws
from torch import nn
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection
from world import EXPERIMENT, TASKS, World


def recompute(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return analysis_command.called("recompute", folder, *arguments)


@pytest.fixture
def copy(papers_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(papers_folder, tmp_path / "run", symlinks=True,
                                ignore=shutil.ignore_patterns("units", "scratch", "log", "results.digest")))


def test_every_group_of_a_run_holds(papers_folder: Path) -> None:
    done = analysis_command.started("recompute", papers_folder, "--points", "40")
    assert done.returncode == 0, done.stdout + done.stderr
    with h5py.File(papers_folder / "results.h5") as file:
        for group in file:
            assert f"\n{group}: " in done.stdout, group
    assert "does not know" not in done.stdout and "numbers hold" in done.stdout.splitlines()[-1]


def test_the_same_seed_draws_the_same_sample(papers_folder: Path) -> None:
    def places(seed: str) -> list[str]:
        done = recompute(papers_folder, "--points", "5", "--seed", seed, "--only", "similarity")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()[:-1]  # the last has the seconds

    assert places("1") == places("1") != places("2")


@pytest.mark.parametrize(("path", "change"), [
    ("tau_jp/linear/value", 1.01), ("similarity/*/loss_gap", 1.1), ("smoothness/*/lambda_max", 1.02),
    ("ntk/random/gram", 1.1), ("representation/tau_jp/error_by_task", 1.1), ("multitask/multitask/loss", 1.01),
    ("addition/posthoc/absolute", 1.001), ("continuation/tau_jp_continue/tau_jp", 1.01),
])
def test_a_number_that_is_wrong_is_found(copy: Path, path: str, change: float) -> None:
    group, regime, name = path.split("/")
    with h5py.File(copy / "results.h5", "r+") as file:
        for each in file[group] if regime == "*" else [regime]:
            file[f"{group}/{each}/{name}"][...] = file[f"{group}/{each}/{name}"][()] * change
    done = recompute(copy, "--points", "60", "--only", group)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILS: stored" in done.stdout and group in done.stdout.splitlines()[-1]


def test_a_changed_byte_is_said(papers_folder: Path, tmp_path: Path) -> None:
    """As long as the program's digest of results.h5 lies beside it."""
    for name in ("results.h5", "results.digest", "config.toml", "inputs.toml"):
        shutil.copy(papers_folder / name, tmp_path)
    for name in ("data", "checkpoints"):
        (tmp_path / name).symlink_to(papers_folder / name)
    content = bytearray((tmp_path / "results.h5").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "results.h5").write_bytes(content)
    done = recompute(tmp_path, "--points", "1")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "results.h5" in done.stderr and "is damaged" in done.stderr and "taugrid run" in done.stderr


@pytest.mark.parametrize("place", ["header", "numbers", "end"])
def test_a_damaged_checkpoint_is_named(run_folder: Path, tmp_path: Path, place: str) -> None:
    """As long as numbers hold that is what is wrong with it, and not that they do not."""
    copied = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    weights = copied / "checkpoints" / "linear" / TASKS[1] / "model.safetensors"
    content = bytearray(weights.read_bytes())
    if place == "end":
        content = content[:-100]
    else:
        content[9 if place == "header" else -5] ^= 0x40
    weights.write_bytes(content)
    done = recompute(copied, "--points", "40", "--only", "similarity")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stdout + done.stderr
    assert f"{weights}: is damaged" in done.stderr and "taugrid run" in done.stderr


def test_every_file_of_a_run_is_verified(run_folder: Path, tmp_path: Path) -> None:
    """A changed byte in each kind of file, and two units whose files are swapped; without one, all hold."""
    whole = analysis_command.called("verify", run_folder)
    assert whole.returncode == 0 and "DAMAGED" not in whole.stdout, whole.stdout + whole.stderr
    kinds = {line.split()[0]: line.split()[1:] for line in whole.stdout.splitlines() if line.endswith("hold")}
    assert kinds.keys() == {"results", "units", "checkpoints", "inputs"}
    assert all(words[0] == words[2] and int(words[0]) > 0 for words in kinds.values()), whole.stdout

    copied = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    first, second, third = sorted((copied / "units").glob("*.safetensors"))[:3]
    weights = copied / "checkpoints" / "linear" / TASKS[0] / "model.safetensors"
    for path in (copied / "results.h5", third, weights):
        content = bytearray(path.read_bytes())
        content[-3] ^= 4
        path.write_bytes(content)
    swapped = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(swapped)
    done = analysis_command.called("verify", copied)
    assert done.returncode == 1 and not done.stderr
    named = [line for line in done.stdout.splitlines() if line.startswith("DAMAGED")]
    assert len(named) == 5
    for path, problem in ((copied / "results.h5", "is damaged"), (third, "is damaged"), (weights, "is damaged"),
                          (first, "is the unit "), (second, "is the unit ")):
        assert any(f"{path}: {problem}" in line for line in named), path


def test_another_choice_is_found(copy: Path) -> None:
    """The coefficient of negation follows from validation points, whatever the accuracies there say."""
    with h5py.File(copy / "results.h5", "r+") as file:
        group = file["negation/linear"]
        right = int(np.argmin(np.abs(group["alpha"][()] - group["chosen_alpha"][0])))
        other = (right + 1) % len(group["alpha"])
        group["chosen_alpha"][0] = group["alpha"][other]
        for name in ("target", "control"):
            group[name][0] = group[f"test_{name}"][0, other]
    done = recompute(copy, "--points", "200", "--only", "negation")
    assert done.returncode == 1 and "chosen_alpha" in done.stdout, done.stdout + done.stderr


def test_another_accuracy_is_found(copy: Path) -> None:
    with h5py.File(copy / "results.h5", "r+") as file:
        file["negation/linear/test_target"][...] += 0.2
    done = recompute(copy, "--points", "200", "--only", "negation")
    assert done.returncode == 1 and "negation: test_target" in done.stdout.splitlines()[-1]


def test_bits_that_are_wrong_are_found(copy: Path) -> None:
    with h5py.File(copy / "results.h5", "r+") as file:
        node = file["correct/addition/linear/test_accuracy"]
        node[...] = node[...] ^ 0b11110000
    done = recompute(copy, "--points", "400", "--only", "correct")
    assert done.returncode == 1 and "correct: addition/test_accuracy" in done.stdout.splitlines()[-1], done.stdout


def test_data_that_have_changed_are_named_by_their_digest(world: World, copy: Path, tmp_path: Path) -> None:
    """The data lie in the run folder itself, where new runs link them."""
    (copy / "data").mkdir(exist_ok=True)
    for name in (*TASKS, "plaids"):
        target = copy / "data" / f"{name}.h5"
        target.unlink(missing_ok=True)
        shutil.copy(world.task(name), target)
    assert recompute(copy, "--points", "1", "--only", "tasks").returncode == 0
    with h5py.File(copy / "data" / f"{TASKS[1]}.h5", "r+") as file:
        pictures = file["test/inputs"][0]
        file["test/inputs"][0] = np.where(pictures > 128, pictures - 1, pictures + 1)
    done = recompute(copy, "--points", "1", "--only", "tasks")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    before = next(line.split('"')[3] for line in (copy / "inputs.toml").read_text().splitlines() if TASKS[1] in line)
    assert f"{TASKS[1]}.h5 was {before} and is " in done.stderr


def test_a_random_start_is_drawn_again(world: World, tmp_path: Path) -> None:
    settings = ("--set", "model.init=random", "--set", 'ntk.init=["random"]')
    measure(world.experiment, tmp_path / "run", *settings)
    done = recompute(tmp_path / "run", "--points", "12")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_random_start_of_open_clip_is_drawn_again(world: World, tmp_path: Path) -> None:
    settings = ("--set", "model.init=random", "--set", "model.drawn_as=open_clip", "--set", 'ntk.init=["random"]')
    measure(world.experiment, tmp_path / "run", *settings)
    done = recompute(tmp_path / "run", "--points", "6")
    assert done.returncode == 0, done.stdout + done.stderr
    with h5py.File(tmp_path / "run" / "results.h5") as file:
        assert file["model"].attrs["drawn_as"] == "open_clip"


def test_open_clips_start_is_that_of_pytorchs_parts() -> None:
    """Each parameter has the spread and the ends of the module that open_clip makes it with."""
    width, mlp, patch = 96, 384, 8
    config = CLIPVisionConfig(hidden_size=width, intermediate_size=mlp, num_hidden_layers=1, num_attention_heads=4,
                              patch_size=patch, image_size=64, projection_dim=80)
    shapes = {name: p.detach() for name, p in CLIPVisionModelWithProjection(config).named_parameters()}
    drawn = draws.open_clip_theta(5, config, shapes)
    torch.manual_seed(6)
    attention = nn.MultiheadAttention(width, 4)
    fc1, fc2 = nn.Linear(width, mlp), nn.Linear(mlp, width)
    normal = width**-0.5 * torch.randn(64, width)
    layer = "vision_model.encoder.layers.0."
    theirs = {
        "vision_model.embeddings.position_embedding.weight": normal,
        "visual_projection.weight": normal,
        "vision_model.embeddings.patch_embedding.weight": nn.Conv2d(3, width, patch, patch, bias=False).weight,
        layer + "self_attn.q_proj.weight": attention.in_proj_weight[:width],
        layer + "self_attn.v_proj.weight": attention.in_proj_weight[2 * width :],
        layer + "self_attn.out_proj.weight": attention.out_proj.weight,
        layer + "mlp.fc1.weight": fc1.weight,
        layer + "mlp.fc1.bias": fc1.bias,
        layer + "mlp.fc2.weight": fc2.weight,
        layer + "mlp.fc2.bias": fc2.bias,
    }
    for name, other in theirs.items():
        assert float(drawn[name].std()) == pytest.approx(float(other.std()), rel=4 / math.sqrt(other.numel())), name
        if other is not normal:  # even between two ends
            assert float(drawn[name].max()) == pytest.approx(float(other.max()), rel=0.1), name
    for name in ("self_attn.q_proj.bias", "self_attn.out_proj.bias", "layer_norm1.bias"):
        assert not drawn[layer + name].any()
    assert (drawn[layer + "layer_norm2.weight"] == 1).all()


def test_curvature_at_a_drawn_start_alone(world: World, tmp_path: Path) -> None:
    """It needs neither [finetune] nor weights: θ0 is drawn from config.json, by the run and again."""
    (tmp_path / "model").mkdir()
    shutil.copy(world.model / "config.json", tmp_path / "model")
    section = "[smoothness]\nregimes = []\nstart = true\npoints = 12\n"
    experiment = world.elsewhere(tmp_path / "start.toml", EXPERIMENT.split("[finetune]")[0] + section)
    drawn = ("--set", "model.init=random", "--set", f"model.path={tmp_path / 'model'}")
    measure(experiment, tmp_path / "run", *drawn)
    done = recompute(tmp_path / "run", "--points", "12")
    assert done.returncode == 0 and "\nsmoothness: lambda_max " in done.stdout, done.stdout + done.stderr
