# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Pre-training, which makes the default model: against plain PyTorch, killed and gone on, and on a device."""

import math
from pathlib import Path

import h5py
import launch
import pretraining
import pytest
import rehearsal
import torch
from compare import assert_close, differing, numbers
from pretraining import RATE, SCALE, WARMUP
from taugrid_analysis.recompute.oracle import load
from torch.nn.functional import log_softmax, normalize
from world import World


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretraining.experiment(world, tmp_path_factory.mktemp("pretrain"))


def test_is_what_pytorch_computes(world: World, experiment: Path, tmp_path: Path) -> None:
    """All pairs in each batch, so that their order does not count."""
    ours = numbers(launch.measure(experiment, tmp_path / "run", ranks=1))
    steps = len(ours["pretraining/loss"])
    model = load(world.model, of_texts=False)
    log_scale = torch.tensor(math.log(SCALE), dtype=torch.double, requires_grad=True)
    with h5py.File(experiment.parent / "pairs.h5") as file, h5py.File(world.task("stripes")) as task:
        mean, std = (torch.tensor(task.attrs[name]).view(1, 3, 1, 1) for name in ("mean", "std"))
        pixels = (torch.tensor(file["images"][()]).permute(0, 3, 1, 2).double() / 255 - mean) / std
        caption = torch.tensor(file["caption"][()]).long()
        text = torch.tensor(file["text_embedding"][()]).double()[caption]
    positives = (caption[:, None] == caption[None, :]).double()
    target = positives / positives.sum(1, keepdim=True)
    weights = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": weights}, {"params": [log_scale], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=0, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.1)
    for step in range(steps):
        z = normalize(model(pixel_values=pixels).image_embeds, dim=1)
        scores = z @ text.T * log_scale.exp()
        loss = sum(-(target * log_softmax(s, 1)).sum(1).mean() for s in (scores, scores.T)) / 2
        assert ours["pretraining/loss"][step] == pytest.approx(loss.item(), rel=1e-4)
        assert ours["pretraining/logit_scale"][step] == pytest.approx(log_scale.exp().item(), rel=1e-5)
        adamw.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        part = (step + 1) / WARMUP if step < WARMUP else \
            (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP))) / 2
        for group, factor in zip(adamw.param_groups, (1, 10), strict=True):
            group["lr"] = RATE * part * factor
        adamw.step()
    assert ours["pretraining/loss"][-1] < 0.95 * ours["pretraining/loss"][0]
    assert (tmp_path / "run" / "checkpoints" / "pretrained" / "model.safetensors").exists()


def test_killed_it_goes_on_bitwise(experiment: Path, tmp_path: Path) -> None:
    settings = [word for setting in ("pretrain.steps=400", "pretrain.batch=8", "pretrain.shift=2",
                                     "pretrain.checkpoint_seconds=0.01") for word in ("--set", setting)]
    expected = numbers(launch.measure(experiment, tmp_path / "reference", *settings, ranks=1))
    folder = tmp_path / "run"
    job = launch.start(1, "run", experiment, "--run-dir", folder, *settings)
    assert launch.wait_until((folder / "scratch" / "pretrain" / "state.safetensors").exists, job)
    launch.kill_all(job)
    assert (folder / "scratch" / "pretrain" / "state.safetensors").exists()
    assert differing(expected, numbers(launch.measure(experiment, folder, *settings, ranks=1))) == []
    assert launch.leftovers(folder) == []


def test_on_a_device_it_does_not_wait_for_each_step(experiment: Path, tmp_path: Path) -> None:
    host = numbers(launch.measure(experiment, tmp_path / "host", ranks=1))
    assert_close(host, numbers(rehearsal.run(experiment, tmp_path / "short")), tolerance=1e-3)
    rehearsal.run(experiment, tmp_path / "long", "--set", "pretrain.steps=112")
    assert rehearsal.waits(tmp_path / "long") - rehearsal.waits(tmp_path / "short") < 100 / 2
