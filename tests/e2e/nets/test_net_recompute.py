# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`recompute` on residual networks, multilayer perceptrons, ConvNeXt, also open_clip's, and a Vision Transformer with
trained classifiers: every group, and what becomes of batch norm's statistics in edited models, by every rule of
model.buffers."""

from pathlib import Path

import analysis_command
import h5py
import net_worlds
import numpy as np
import pytest
import torch
from launch import measure, run
from net_worlds import NetWorld
from taugrid_analysis.recompute.nets import statistics_of
from torch import nn
from torch.optim import swa_utils

FEW = 'finetune.regimes=["standard"]'
MERGED = """
[merging]
methods = ["task_arithmetic", "ties"]
alpha = [0.0, 0.5, 1.0]
[bases] # whose own statistics Fisher merging sees
clusters = [2]
random = 1
alpha = [0.5, 1.0]
[bases.merge_out]
method = "fisher"
points = 16
"""
EDITS = ("similarity", "disentanglement", "barrier", "merging", "bases", "addition", "single_task")  # of edited models


OTHERS = ("linearity", "averages", "layer_averages", "stitching", "smoothness", "ntk", "cost", "pair_addition")


def recomputed(folder: Path, *arguments: str) -> None:
    done = analysis_command.called("recompute", folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "numbers hold" in done.stdout.splitlines()[-1] and "does not know" not in done.stdout


@pytest.mark.parametrize("name", ["resnet", "mlp", "convnext", "closed"])
def test_every_group_of_a_run_holds(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    recomputed(net_worlds.finished(tmp_path_factory.getbasetemp(), name)[1], "--points", "12")


@pytest.mark.parametrize("start", [(), ("model.init=random",)])
def test_a_projection_into_the_space_of_texts_holds(start: tuple[str, ...], tmp_path: Path) -> None:
    world = net_worlds.open_clip_world(tmp_path / "world")
    few = net_worlds.without(world, ("averages", "layer_averages", "stitching", "smoothness", "barrier", "cost",
                               "pair_addition"))
    words = [word for setting in ("finetune.steps=8", *start) for word in ("--set", setting)]
    measure(few, tmp_path / "run", *words)
    recomputed(tmp_path / "run", "--points", "12")


@pytest.mark.parametrize(("name", "settings"), [
    ("closed", ()), ("closed", ("finetune.first_stage=2",)), ("resnet", ()), ("resnet", ("finetune.first_stage=2",)),
])
def test_classifiers_that_are_trained_with_the_body_hold(name: str, settings: tuple[str, ...], tmp_path: Path) -> None:
    """Their losses, weights, and accuracies before training, of models with and without batch norm."""
    world = net_worlds.WORLDS[name](tmp_path / "world")
    few = net_worlds.without(world, (*OTHERS, "similarity", "disentanglement", "barrier", "merging", "negation"),
                             net_worlds.TRAINED_HEADS if name == "resnet" else "")
    words = [word for setting in ("heads.body=trained", "heads.steps=12", *settings) for word in ("--set", setting)]
    measure(few, tmp_path / "run", *words)
    recomputed(tmp_path / "run", "--points", "12", "--only", "heads", "--only", "single_task")
    with h5py.File(tmp_path / "run" / "results.h5") as file:
        heads = file["heads/pretrained"]
        assert heads["drawn_accuracy"].shape == (len(world.tasks),)
        assert ("first_stage" in heads.attrs) == bool(settings)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> NetWorld:
    return net_worlds.resnet_world(tmp_path_factory.mktemp("statistics") / "world")


@pytest.fixture(scope="module")
def edits(world: NetWorld) -> Path:
    return net_worlds.without(world, OTHERS, MERGED)


@pytest.fixture(scope="module")
def gaps(edits: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """What each rule makes of the loss gap of pairs."""
    losses = {}
    for rule in ("recompute", "average", "keep"):
        folder = tmp_path_factory.mktemp(rule) / "run"
        measure(edits, folder, "--set", f"model.buffers={rule}", "--set", "model.buffers_points=50", "--set", FEW)
        recomputed(folder, "--points", "40", *(word for group in EDITS for word in ("--only", group)))
        with h5py.File(folder / "results.h5") as file:
            losses[rule] = file["similarity/standard/loss_gap"][()]
            losses[f"own {rule}"] = file["single_task/standard/loss"][()]
    return losses


def test_every_rule_gives_the_models_that_it_says(gaps: dict[str, np.ndarray]) -> None:
    rules = [gaps[rule] for rule in ("recompute", "average", "keep")]
    assert all((np.abs(a - b) > 1e-6).all() for a, b in zip(rules, rules[1:] + rules[:1], strict=True))


def test_a_tasks_own_model_has_its_own_statistics(gaps: dict[str, np.ndarray]) -> None:
    assert (gaps["own recompute"] == gaps["own average"]).all() and (gaps["own keep"] == gaps["own average"]).all()


@pytest.mark.parametrize("settings", [("finetune.first_stage=2",), ("model.init=random", "finetune.steps=8")])
def test_frozen_stages_and_a_random_start(edits: Path, tmp_path: Path, settings: tuple[str, ...]) -> None:
    words = [word for setting in (FEW, *settings) for word in ("--set", setting)]
    measure(edits, tmp_path / "run", *words)
    recomputed(tmp_path / "run", "--points", "30", *(word for group in EDITS for word in ("--only", group)))


def test_statistics_are_those_of_pytorchs_own_rule(world: NetWorld) -> None:
    """What recompute takes them by: torch.optim.swa_utils.update_bn."""
    model = net_worlds.ResNet(world.config).double()
    x = np.random.default_rng(0).normal(size=(3, 7, 3, 16, 16))
    batches = [torch.tensor(part) for part in x]
    statistics = statistics_of(model, {}, batches, 0)
    swa_utils.update_bn(batches, model)
    norms = {name: m for name, m in model.named_modules() if isinstance(m, nn.BatchNorm2d)}
    for name, norm in norms.items():
        assert torch.allclose(norm.running_mean, statistics[f"{name}.running_mean"], rtol=1e-12)
        assert torch.allclose(norm.running_var, statistics[f"{name}.running_var"], rtol=1e-12)


def test_another_rule_is_refused_in_one_line(edits: Path, tmp_path: Path) -> None:
    for setting, named in (("model.buffers=combine", "model.buffers"), ("model.buffers_points=0", "buffers_points")):
        refused = run(1, "run", edits, "--run-dir", tmp_path / "run", "--set", setting)
        assert refused.returncode == 2 and refused.stderr.count("\n") == 1 and named in refused.stderr
    assert not (tmp_path / "run").exists()
