# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[merging] with data: every method's vector against its formula in plain PyTorch, on models of a small world."""

import subprocess
from pathlib import Path
from typing import Any

import analysis_command
import h5py
import launch
import numpy as np
import pytest
import torch
from compare import differing, numbers
from safetensors.numpy import load_file
from taugrid_analysis.recompute import data_methods, draws
from taugrid_analysis.recompute.oracle import Oracle
from world import CLASSES, EXPERIMENT, TASKS, World

REGIMES = ("standard", "linear")
METHODS = ["fisher"]
VARIANTS: dict[str, dict[str, Any]] = {
    "fisher": {},
    "fisher_of_the_predicted": {"fisher": "predicted", "floor_of": "first", "normalize": False, "floor": 1e-3,
                                "inputs": "validation"},
}
TEXT = EXPERIMENT.split("[similarity]")[0].replace("steps = 25", "steps = 12") + f"""
[merging]
methods = {METHODS}
save = true
[merging.fisher]
points = 30
chunk = 7
"""


def given_by(run: Path) -> list[str]:
    """Settings of a run that takes this one's models."""
    return [f"finetune.checkpoints={run / 'checkpoints'}", 'finetune.given=["standard", "linear"]']


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.elsewhere(tmp_path_factory.mktemp("experiment") / "merging.toml", TEXT)


@pytest.fixture(scope="module")
def runs(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By variant: the first trains, the others take its models."""
    folder = tmp_path_factory.mktemp("merging")
    found: dict[str, Path] = {}
    for name, settings in VARIANTS.items():
        method = name.split("_of_")[0]
        given: list[str] = []
        if found:
            given = given_by(found[METHODS[0]])
        if method != name:
            given.append(f'merging.methods=["{method}"]')
        given += [f"merging.{method}.{key}={str(value).lower()}" for key, value in settings.items()]
        found[name] = folder / name
        if method == name and found.get(METHODS[0], found[name]) != found[name]:
            found[name] = found[METHODS[0]]  # one run has all methods with their defaults
            continue
        launch.measure(experiment, found[name], *(word for one in given for word in ("--set", one)))
    return found


@pytest.fixture(scope="module")
def run(runs: dict[str, Path]) -> Path:
    return runs[METHODS[0]]


@pytest.fixture(scope="module")
def file(run: Path) -> h5py.File:
    return h5py.File(run / "results.h5")


def merged(run: Path, method: str, regime: str) -> np.ndarray:
    return load_file(run / "units" / f"merging__{method}__{regime}.safetensors")["tau"]


def in_order(tau: dict[str, torch.Tensor]) -> np.ndarray:
    return np.concatenate([tau[name].numpy().ravel() for name in draws.in_order(tau)])


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_vector_is_that_of_the_formula(runs: dict[str, Path], variant: str, regime: str) -> None:
    method = variant.split("_of_")[0]
    oracle = Oracle(runs[variant])
    told = oracle.inputs.config["merging"][method]
    expected = in_order(data_methods.METHODS[method](oracle, regime, told))
    found = merged(runs[variant], method, regime)
    size = np.sqrt(np.mean(expected**2))
    assert np.abs(found - expected).max() < 2e-3 * size
    plain = in_order({name: sum(oracle.tau(regime, t)[name] for t in range(3)) / 3 for name in oracle.theta0})
    assert np.sqrt(np.mean((expected - plain) ** 2)) > 0.05 * size  # not the mean


@pytest.mark.parametrize("ranks", [1, 4])
def test_numbers_do_not_depend_on_the_ranks(experiment: Path, run: Path, tmp_path: Path, ranks: int) -> None:
    again = launch.measure(experiment, tmp_path / "run", ranks=ranks)
    assert differing(numbers(run / "results.h5"), numbers(again)) == []


def test_a_group_of_ranks_shares_the_inputs(experiment: Path, run: Path, tmp_path: Path) -> None:
    given = [*given_by(run), "run.ranks_per_unit=2"]
    launch.measure(experiment, tmp_path / "run", *(word for one in given for word in ("--set", one)))
    for method in METHODS:
        for regime in REGIMES:
            alone = merged(run, method, regime)
            assert np.abs(merged(tmp_path / "run", method, regime) - alone).max() < 2e-3 * np.abs(alone).max()


@pytest.mark.parametrize("regime", REGIMES)
def test_what_fisher_took(file: h5py.File, runs: dict[str, Path], regime: str) -> None:
    classes = [CLASSES[task] for task in TASKS]
    group = file[f"merging/fisher/{regime}"]
    assert group.attrs["inputs"] == "train" and group["data_sample_index"].shape == (3, 30)
    assert group["forward_passes"][()] == 90 and group["backward_passes"][()] == 30 * sum(classes)
    assert group["passes"][()] == 1 and group["coefficient"][()] == 1 and group["alpha"][()].tolist() == [1.0]
    with h5py.File(runs["fisher_of_the_predicted"] / "results.h5") as other:
        group = other[f"merging/fisher/{regime}"]
        assert group.attrs["inputs"] == "validation" and (group["data_sample_index"][()] >= 0).sum() == 60
        assert group["forward_passes"][()] == group["backward_passes"][()] == 60
        assert (group["floored"][()] > 0.2).all()  # the floor's own rule was looked at


def test_recompute_takes_them_again(run: Path) -> None:
    done = analysis_command.called("recompute", run, "--points", "60", "--only", "merging")
    assert done.returncode == 0, done.stdout + done.stderr
    for method in METHODS:
        assert f"\nmerging/{method}: test_accuracy " in done.stdout
    assert "\nmerging/fisher: norm " in done.stdout and "\nmerging/fisher: floored " in done.stdout


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_model_says_that_it_needs_data(run: Path, method: str) -> None:
    recipe = run / "merged" / method / "standard" / "merge.toml"
    before = sorted(recipe.parent.iterdir())
    done = subprocess.run([launch.PROGRAM, "merge", str(recipe)], capture_output=True, text=True, check=False,
                          env=launch.environment(), timeout=launch.PATIENCE)
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    assert "merge_method" in lines[0] and f'"{method}", which needs data; use [merging] in an experiment' in lines[0]
    assert sorted(recipe.parent.iterdir()) == before


@pytest.mark.parametrize(("settings", "expected"), [
    (["merging.fisher.fisher=some"], ["merging.fisher.fisher", "all, predicted"]),
    (["merging.fisher.inputs=test"], ["merging.fisher.inputs", "train, validation"]),
    (["merging.fisher.floor=0"], ["merging.fisher.floor", "1e-30"]),
    (["merging.fisher.points=0"], ["merging.fisher.points"]),
])
def test_wrong_settings(experiment: Path, tmp_path: Path, settings: list[str], expected: list[str]) -> None:
    arguments = [word for setting in settings for word in ("--set", setting)]
    done = launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", *arguments)
    lines = [line for line in done.stderr.splitlines() if line.startswith("taugrid: error:")]
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    assert all(word in lines[0] for word in expected), lines[0]
