# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The program on a real GPU, against the host. Skipped with a line where there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "e2e"))
import decoder_worlds
import h5py
import launch
import net_worlds
import world as worlds
from compare import close_to_rounding, differing, numbers


def gpus() -> int:
    text = subprocess.run([launch.PROGRAM, "info"], capture_output=True, text=True, check=True).stdout
    line = next(line for line in text.splitlines() if line.strip().startswith("devices"))
    return int(line.split(",")[1].split()[0]) if "," in line else 0


pytestmark = pytest.mark.skipif(gpus() == 0, reason="no GPU here")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> worlds.World:
    return worlds.make(tmp_path_factory.mktemp("world") / "tiny")


@pytest.fixture(scope="module")
def host(world: worlds.World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return launch.measure(world.papers, tmp_path_factory.mktemp("host") / "run", "--device", "cpu")


def test_every_experiment_gives_the_hosts_numbers(world: worlds.World, host: Path, tmp_path: Path) -> None:
    ours = launch.measure(world.papers, tmp_path / "run", "--device", "cuda", ranks=1)
    close_to_rounding(numbers(host), numbers(ours), tolerance=0.02)
    with h5py.File(ours) as file:
        assert file["provenance"].attrs["nccl_loaded"]
        assert file["units"][0]["device"].decode().startswith("cuda:")


def test_the_same_run_again_gives_the_same_numbers(world: worlds.World, tmp_path: Path) -> None:
    """Bitwise: a run that was ended and went on must not be told from one that was not."""
    first, again = (launch.measure(world.experiment, tmp_path / name, "--device", "cuda", ranks=1)
                    for name in ("first", "again"))
    assert differing(numbers(first), numbers(again)) == []


OTHERS = {"resnet": net_worlds.resnet_world, "convnext": net_worlds.convnext_world, "mlp": net_worlds.mlp_world,
          "decoder": decoder_worlds.gemma_world}


@pytest.mark.parametrize("name", OTHERS)
def test_other_architectures_give_the_hosts_numbers_and_the_same_again(name: str, tmp_path: Path) -> None:
    """Convolutions, batch norms, embeddings and attention with masks: their sums on a GPU have a fixed order, too."""
    experiment = OTHERS[name](tmp_path / "world").experiment
    expected = launch.measure(experiment, tmp_path / "host", "--device", "cpu")
    first, again = (numbers(launch.measure(experiment, tmp_path / run, "--device", "cuda", ranks=1))
                    for run in ("first", "again"))
    assert differing(first, again) == []
    close_to_rounding(numbers(expected), first, tolerance=0.02)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_other_precisions_are_near(world: worlds.World, host: Path, tmp_path: Path, precision: str) -> None:
    ours = numbers(launch.measure(world.papers, tmp_path / "run", "--device", "cuda", "--set",
                                  f'run.precision="{precision}"', ranks=1))
    expected = numbers(host)
    for regime in ("standard", "linear"):
        name = f"training/{regime}/loss"
        assert abs(ours[name] - expected[name]).max() < 0.1 * expected[name].max()


def test_a_group_of_ranks_sums_over_devices(world: worlds.World, tmp_path: Path) -> None:
    alone = launch.measure(world.experiment, tmp_path / "one", "--device", "cuda", ranks=1)
    two = launch.run(2, "run", world.experiment, "--run-dir", tmp_path / "two", "--device", "cuda",
                     "--set", "run.ranks_per_unit=2")
    assert two.returncode == 0, two.stderr
    # Ranks that share a GPU go through the host, and are told.
    assert ("NCCL cannot be used among them" in two.stderr) == (gpus() == 1)
    close_to_rounding(numbers(alone), numbers(tmp_path / "two" / "results.h5"), tolerance=0.02)


def test_bench_is_valid() -> None:
    done = subprocess.run([launch.PROGRAM, "bench", "--device", "cuda", "--repetitions", "1"], capture_output=True,
                          text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gpu/nonlinear_grid_b32_bf16" in done.stdout
