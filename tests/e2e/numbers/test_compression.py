# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[compression]: task vectors with few singular vectors, against NumPy's SVD of the checkpoints."""

from pathlib import Path

import analysis_command
import h5py
import launch
import numpy as np
import pytest
from compare import differing, numbers
from safetensors.numpy import load_file
from taugrid_analysis.quantities.compression import compression
from taugrid_analysis.run.opened import Run
from world import EXPERIMENT, REGIMES, TASKS, World

SHARES = [0.3, 1.0]
TEXT = EXPERIMENT.split("[disentanglement]")[0].replace("steps = 25", "steps = 8") + f"""
[compression]
rank_shares = {SHARES}
"""


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.elsewhere(tmp_path_factory.mktemp("experiment") / "compression.toml", TEXT)


@pytest.fixture(scope="module")
def run(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compression") / "run"
    launch.measure(experiment, folder)
    return folder


@pytest.mark.parametrize("regime", REGIMES)
def test_what_is_left(world: World, run: Path, regime: str) -> None:
    start = load_file(world.weights)
    with h5py.File(run / "results.h5") as file:
        group, single = file[f"compression/{regime}"], file[f"single_task/{regime}"]
        stored = {name: x.astype(np.float64) for name, x in start.items() if "position_ids" not in name}
        assert group["accuracy"].dims[0][0].name == f"/compression/{regime}/rank_share"
        assert group["whole_bits"][()] == 32 * sum(x.size for x in stored.values())
        for s, share in enumerate(SHARES):
            ranks = {name: int(share * min(x.shape)) for name, x in stored.items() if x.ndim == 2}
            bits = 32 * sum(ranks[name] * (1 + sum(x.shape)) if name in ranks else x.size
                            for name, x in stored.items())
            assert group["bits"][s] == bits
            for t, task in enumerate(TASKS):
                model = load_file(run / "checkpoints" / regime / task / "model.safetensors")
                left = whole = 0.0
                for name, x in stored.items():
                    tau = model[name].astype(np.float64) - x
                    squares = np.linalg.svd(tau, compute_uv=False) ** 2 if name in ranks else (tau**2).ravel()
                    whole += squares.sum()
                    left += squares[: ranks.get(name, x.size)].sum()
                assert group["kept"][s, t] == pytest.approx(left / whole, rel=1e-4)
        assert np.array_equal(group["accuracy"][-1], single["accuracy"][()])  # every triple is there
        assert group["kept"][0].max() < 1


def test_any_number_of_ranks_finds_the_same(experiment: Path, run: Path, tmp_path: Path) -> None:
    """In groups of two, too, and where memory holds no vector."""
    more = ("--set", "run.ranks_per_unit=2", "--set", "run.memory=1e-5", *launch.given_by(run))
    again = launch.measure(experiment, tmp_path / "run", *more)
    assert [path for path in differing(numbers(run / "results.h5"), numbers(again))
            if path.startswith("compression") and "correct" not in path] == []


def test_the_analysis_prints_it_and_finds_it_again(run: Path) -> None:
    rows = compression(Run(run)).rows
    assert [row[:2] for row in rows] == [[regime, share] for regime in REGIMES for share in SHARES]
    assert all(row[5] == row[6] and row[7] == 1 for row in rows if row[1] == 1)
    done = analysis_command.called("recompute", run, "--only", "compression", "--points", "1000")
    assert done.returncode == 0 and "numbers hold" in done.stdout, done.stdout


def test_the_published_share(experiment: Path, tmp_path: Path) -> None:
    done = launch.run(1, "plan", experiment, "--ranks", 1, "--set", "compression.rank_shares=[]")
    assert done.returncode == 0, done.stderr
    launch.complaint(launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", "--set",
                                "compression.rank_shares=[0.0]"), "compression.rank_shares", "above 0")
