# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The GPU path, rehearsed."""

import os
import subprocess
from pathlib import Path

import h5py
import launch
import numpy as np
import pytest
import rehearsal
import torch
from compare import assert_close, numbers
from world import EXPERIMENT, World, without

NCCL = os.environ.get("TAUGRID_NCCL_STUB", "")  # empty: built without NCCL's headers


def test_every_experiment_stays_on_the_device_and_gives_the_hosts_numbers(world: World, papers_folder: Path,
                                                                          tmp_path: Path) -> None:
    device = rehearsal.run(world.papers, tmp_path / "device")
    assert_close(numbers(papers_folder / "results.h5"), numbers(device))
    with h5py.File(device) as file:
        assert {row["device"].decode() for row in file["units"][()]} == {"rehearsal:0"}


@pytest.mark.parametrize("nccl", ["", NCCL], ids=["through the host", "by NCCL"])
def test_groups_of_ranks_on_devices_give_the_same(world: World, run_folder: Path, tmp_path: Path, nccl: str) -> None:
    device = rehearsal.run(world.experiment, tmp_path / "device", "--set", "run.ranks_per_unit=2", ranks=2, more=nccl)
    assert_close(numbers(run_folder / "results.h5"), numbers(device))
    with h5py.File(device) as file:
        assert ("nccl_loaded" in file["provenance"].attrs) == bool(nccl)


SHORT, LONG = 20, 80  # steps
LONGER = {  # setting: iterations more, of a loop that must not wait in each
    f"finetune.steps={LONG}": 6 * (LONG - SHORT),
    "disentanglement.alpha={ from = -2.0, to = 2.0, count = 17 }": 2 * 3 * (17 * 17 - 25),
    "addition.alpha={ from = 0.0, to = 1.0, count = 41 }": 6 * 35,
}


@pytest.fixture(scope="module")
def short_and_long(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs that measure these loops and nothing else."""
    folder = tmp_path_factory.mktemp("loops")
    experiment = world.elsewhere(folder / "loops.toml", without(EXPERIMENT, "linearity", "averages", "stitching",
                                                                "barrier", "smoothness", "ntk"))
    for name, settings in (("short", [f"finetune.steps={SHORT}"]), ("long", LONGER)):
        rehearsal.run(experiment, folder / name, *(word for setting in settings for word in ("--set", setting)))
    return folder / "short", folder / "long"


def test_loops_do_not_wait_for_the_device(short_and_long: tuple[Path, Path]) -> None:
    """Waits that come with time, such as a look at the loss each second, are few."""
    short, long = short_and_long
    assert rehearsal.waits(long) - rehearsal.waits(short) < min(LONGER.values()) / 2


def test_batches_travel_beside_the_step_before(short_and_long: tuple[Path, Path]) -> None:
    short, long = short_and_long
    # Pictures and labels of the further steps of six trainings.
    for count in (rehearsal.sent_beside, rehearsal.kept):
        assert count(long) - count(short) == 2 * (LONG - SHORT) * 6


def test_bfloat16_evaluates_and_trains_and_no_more(world: World, run_folder: Path, tmp_path: Path) -> None:
    exact = numbers(run_folder / "results.h5")
    rough = numbers(launch.measure(world.experiment, tmp_path / "bf16", "--set", 'run.precision="bf16"'))
    # These are measured at θ0, which training does not change.
    for name in ("gram", "local_energy", "eigenvalues", "null_share", "rank"):
        assert np.array_equal(exact[f"ntk/pretrained/{name}"], rough[f"ntk/pretrained/{name}"], equal_nan=True)
    for regime in ("standard", "linear"):
        loss, near = exact[f"training/{regime}/loss"], rough[f"training/{regime}/loss"]
        assert not np.array_equal(loss, near)
        assert np.abs(near - loss).max() < 0.05 * loss.max()
        assert np.abs(exact[f"single_task/{regime}/loss"] - rough[f"single_task/{regime}/loss"]).max() < 0.2


def rounds_factors() -> bool:
    """Whether a product of numbers that bfloat16 rounds to 1 is one of ones, where PyTorch is allowed to round."""
    factor = torch.full((256, 256), 1 + 2.0**-12)
    before = torch.backends.mkldnn.matmul.fp32_precision
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    try:
        return bool((factor @ factor)[0, 0] == 256)
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = before


def test_factors_are_rounded_in_passes_and_no_more(world: World, run_folder: Path, tmp_path: Path) -> None:
    """Where PyTorch's own products round them; elsewhere one line refuses it."""
    words = ("run", world.experiment, "--run-dir", tmp_path / "run", "--set", 'run.precision="bf16_products"')
    done = launch.run(2, *words)
    if not rounds_factors():
        launch.complaint(done, "run.precision is bf16_products", "which needs AMX")
        return
    assert done.returncode == 0, done.stderr
    exact, rough = (numbers(folder / "results.h5") for folder in (run_folder, tmp_path / "run"))
    for name in ("gram", "local_energy", "eigenvalues", "null_share", "rank"):
        assert np.array_equal(exact[f"ntk/pretrained/{name}"], rough[f"ntk/pretrained/{name}"], equal_nan=True)
    for regime in ("standard", "linear"):
        loss, near = exact[f"training/{regime}/loss"], rough[f"training/{regime}/loss"]
        assert not np.array_equal(loss, near)
        assert np.abs(near - loss).max() < 0.02 * loss.max()
        assert np.abs(exact[f"single_task/{regime}/loss"] - rough[f"single_task/{regime}/loss"]).max() < 0.1


def test_ranks_that_compute_on_different_devices_are_refused(world: World, tmp_path: Path) -> None:
    """That happens where "auto" finds a GPU on one host of a launch and none on another."""
    both = launch.command(1, "run", world.experiment, "--run-dir", tmp_path / "run", "--device", "rehearsal")
    both[1:1] = ["-x", f"LD_PRELOAD={rehearsal.LIBRARY}"]
    both += [":", "-n", "1", launch.PROGRAM, "run", str(world.experiment), "--run-dir", str(tmp_path / "run")]
    done = subprocess.run(both, env=launch.environment(), text=True, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=launch.PATIENCE, check=False)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("taugrid")]
    assert line.startswith("taugrid: error: rank 1 (") and "this rank has none; start with --device cpu" in line
    assert not (tmp_path / "run").exists()


def test_a_gpu_that_is_not_there_is_said(world: World, tmp_path: Path) -> None:
    done = launch.run(2, "run", world.experiment, "--run-dir", tmp_path / "run", "--device", "cuda")
    if done.returncode == 0:
        pytest.skip("a GPU is there")
    assert done.returncode == 2
    assert done.stderr.startswith("taugrid: error: rank 0 (")
    assert done.stderr.count("\n") == 1
    assert "device cuda: no GPU is seen here" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_device_that_computes_nothing_is_refused(world: World, tmp_path: Path) -> None:
    """LibTorch knows names of more devices."""
    for name in ("toaster", "meta", "xla"):
        done = launch.run(1, "run", world.experiment, "--run-dir", tmp_path / "run", "--device", name)
        expected = f'taugrid: error: device "{name}": expected auto, cpu or cuda\n'
        assert (done.returncode, done.stderr) == (2, expected)
