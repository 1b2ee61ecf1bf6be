# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Training on random resized crops, beside torchvision's own."""

import shutil
from pathlib import Path

import analysis_command
import h5py
import pytest
import torch
from compare import close_to_rounding, differing, numbers
from launch import kill_all, measure, run, start, units, wait_until
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.oracle import Oracle
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.functional import resized_crop
from world import ROWS, TASKS, World

SEED, BATCH, SIDE, LEAST = 5, 16, 16, 0.6
CROPS = ("--set", f"finetune.random_crop={LEAST}")
SETTINGS = (*CROPS, "--set", "finetune.steps=6", "--set", 'finetune.regimes=["standard", "linear"]')


@pytest.fixture(scope="module")
def plain(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training alone."""
    text = world.experiment.read_text().split("[similarity]")[0]
    return world.elsewhere(tmp_path_factory.mktemp("experiment") / "crops.toml", text)


@pytest.fixture(scope="module")
def cropped(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crops") / "run"
    measure(plain, folder, *SETTINGS)
    return folder


def boxes(task: str, step: int) -> list[draws.Box]:
    seed = draws.seed_for(draws.seed_for(SEED, f"batches/{task}"), f"crops{step}")
    return draws.boxes(seed, BATCH, SIDE, SIDE, LEAST)


def torchvisions(oracle: Oracle, t: int, step: int) -> Tensor:
    """The oracle's boxes, cut and resized by torchvision."""
    rows = draws.batches(SEED, f"batches/{TASKS[t]}", ROWS["train"], (step + 1) * BATCH)[-BATCH:]
    whole, _ = oracle.stored("train", t, rows)
    parts = [resized_crop(image, *box, [SIDE, SIDE], InterpolationMode.BICUBIC, antialias=True)
             for image, box in zip(whole, boxes(TASKS[t], step), strict=True)]
    return oracle.normalised(t, torch.stack(parts))


def test_the_oracles_crops_are_torchvisions(cropped: Path) -> None:
    oracle = Oracle(cropped)
    assert len(set(boxes(TASKS[0], 0))) > BATCH / 2 and boxes(TASKS[0], 0) != boxes(TASKS[0], 1)
    for t in range(len(TASKS)):
        for step in (0, 4):
            pictures, labels = oracle.batch(t, step, BATCH, LEAST)
            assert torch.equal(pictures, torchvisions(oracle, t, step)) and labels.shape == (BATCH,)
            assert not torch.equal(pictures, oracle.batch(t, step, BATCH)[0])


@pytest.mark.parametrize("regime", ["standard", "linear"])
def test_the_first_loss_is_that_of_the_oracles_crops(cropped: Path, regime: str) -> None:
    oracle = Oracle(cropped)
    assert oracle.results[f"training/{regime}"].attrs["random_crop"] == LEAST
    for t in range(len(TASKS)):
        x, y = oracle.batch(t, 0, BATCH, LEAST)
        expected = float(oracle.training_loss(regime, t, oracle.theta0, x, y))
        assert oracle.results[f"training/{regime}/loss"][t, 0] == pytest.approx(expected, rel=1e-5)


def test_recompute_repeats_the_crops(cropped: Path, tmp_path: Path) -> None:
    """The command itself; a run that says of its crops what they were not is found out."""
    done = analysis_command.called("recompute", cropped, "--only", "training")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "training: loss of the first step" in done.stdout
    copy = Path(shutil.copytree(cropped, tmp_path / "run", symlinks=True))
    config = (copy / "config.toml").read_text()
    assert f"random_crop = {LEAST}" in config
    (copy / "config.toml").write_text(config.replace(f"random_crop = {LEAST}", "random_crop = 1.0"))
    done = analysis_command.called("recompute", copy, "--only", "training")
    assert done.returncode == 1 and "training: loss of the first step" in done.stdout.splitlines()[-1], done.stdout


def test_crops_change_the_training_and_each_step_has_its_own(cropped: Path, plain: Path, tmp_path: Path) -> None:
    """Where the learning rate is 0, a batch's loss is the same again unless its crops are others."""
    still = ("--set", "finetune.learning_rate=0", "--set", "finetune.linear.learning_rate=0",
             "--set", f"finetune.batch={ROWS['train']}")
    losses = {}
    for name, settings in {"whole": SETTINGS[2:], "crops": SETTINGS}.items():
        with h5py.File(measure(plain, tmp_path / name, *settings, *still)) as file:
            losses[name] = file["training/standard/loss"][0]
    assert losses["whole"] == pytest.approx(losses["whole"][0], rel=1e-6)
    assert len({round(float(loss), 5) for loss in losses["crops"]}) > 3


def test_the_default_has_none(run_folder: Path) -> None:
    assert Oracle(run_folder).results["training/standard"].attrs["random_crop"] == 1


def test_numbers_do_not_depend_on_the_number_of_ranks(cropped: Path, plain: Path, tmp_path: Path) -> None:
    theirs = numbers(measure(plain, tmp_path / "run", *SETTINGS, ranks=4))
    assert differing(numbers(cropped / "results.h5"), theirs) == []


def test_two_ranks_a_unit_agree_to_rounding(cropped: Path, plain: Path, tmp_path: Path) -> None:
    theirs = numbers(measure(plain, tmp_path / "run", *SETTINGS, "--set", "run.ranks_per_unit=2"))
    close_to_rounding(numbers(cropped / "results.h5"), theirs)


def test_a_killed_training_goes_on_with_the_same_crops(plain: Path, tmp_path: Path) -> None:
    long = (*CROPS, "--set", "finetune.steps=60", "--set", "finetune.checkpoint_seconds=0.02",
            "--set", 'finetune.regimes=["standard"]')
    reference = measure(plain, tmp_path / "reference", *long)
    folder = tmp_path / "run"
    job = start(2, "run", plain, "--run-dir", folder, *long)
    assert wait_until(lambda: any((folder / "scratch").rglob("state.safetensors")), job)
    kill_all(job)
    assert units(folder) < units(tmp_path / "reference")
    done = run(2, "run", plain, "--run-dir", folder, *long)
    assert done.returncode == 0, done.stderr
    assert differing(numbers(reference), numbers(folder / "results.h5")) == []


def test_frozen_stages_see_the_crops_too(cropped: Path, plain: Path, tmp_path: Path) -> None:
    """What the first stages make of whole pictures is kept by other trainings, and of no use here."""
    with h5py.File(measure(plain, tmp_path / "run", *SETTINGS, "--set", "finetune.first_stage=1")) as file:
        for regime in ("standard", "linear"):
            ours, theirs = (results[f"training/{regime}/loss"] for results in (file, Oracle(cropped).results))
            assert list(ours[:, 0]) == pytest.approx(list(theirs[:, 0]), rel=1e-5)
            assert abs(ours[:, -1] - theirs[:, -1]).max() > 1e-4
