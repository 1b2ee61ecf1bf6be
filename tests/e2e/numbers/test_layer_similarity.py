# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[layer_similarity]: inner products by parameter against NumPy's of the checkpoints, for any number of ranks."""

from pathlib import Path

import analysis_command
import h5py
import launch
import numpy as np
import pytest
from compare import differing, numbers
from safetensors.numpy import load_file
from taugrid_analysis.quantities.layer_similarity import layer_similarity
from taugrid_analysis.run.opened import Run
from world import EXPERIMENT, REGIMES, TASKS, World

TEXT = EXPERIMENT.split("[disentanglement]")[0].replace("steps = 25", "steps = 8") + "[layer_similarity]\n"


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.elsewhere(tmp_path_factory.mktemp("experiment") / "layers.toml", TEXT)


@pytest.fixture(scope="module")
def run(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layers") / "run"
    launch.measure(experiment, folder)
    return folder


@pytest.mark.parametrize("regime", REGIMES)
def test_inner_products(world: World, run: Path, regime: str) -> None:
    start = load_file(world.weights)
    models = [load_file(run / "checkpoints" / regime / name / "model.safetensors") for name in TASKS]
    with h5py.File(run / "results.h5") as file:
        group, whole = file[f"layer_similarity/{regime}"], file[f"similarity/{regime}"]
        names = group["parameter"].asstr()[()]
        assert set(names) == {name for name in models[0] if "position_ids" not in name}
        for p, name in enumerate(names):
            tau = [model[name].astype(np.float64).ravel() - start[name].ravel() for model in models]
            expected = [[a @ b for b in tau] for a in tau]
            np.testing.assert_allclose(group["gram"][p], expected, rtol=1e-4, atol=1e-5 * np.trace(expected))
            assert group["start"][p] == pytest.approx(float((start[name].astype(np.float64) ** 2).sum()), rel=1e-6)
            assert group["numbers"][p] == start[name].size
        total = group["gram"][()].sum(0)
        norm = np.sqrt(np.diag(total))
        np.testing.assert_allclose(norm, whole["norm"][()], rtol=1e-6)
        np.testing.assert_allclose(total / np.outer(norm, norm), whole["cosine"][()], atol=1e-6)
        layers = [int(name.split("layers.")[1].split(".")[0]) + 1 if "layers." in name else None for name in names]
        assert all(layer in (None, stage) for layer, stage in zip(layers, group["stage"][()], strict=True))
        kinds = [group.attrs["kinds"].split(", ")[kind] for kind in group["kind"][()]]
        assert all((kind == "attention weight") == (".self_attn." in name and name.endswith("weight"))
                   for name, kind in zip(names, kinds, strict=True))


def test_any_number_of_ranks_finds_the_same(experiment: Path, run: Path, tmp_path: Path) -> None:
    """In groups of two, too, and where memory holds no vector."""
    more = ("--set", "run.ranks_per_unit=2", "--set", "run.memory=1e-5", *launch.given_by(run))
    again = launch.measure(experiment, tmp_path / "run", *more)
    assert [path for path in differing(numbers(run / "results.h5"), numbers(again))
            if path.startswith("layer_similarity")] == []


def test_the_analysis_prints_it_and_finds_it_again(run: Path) -> None:
    rows = layer_similarity(Run(run)).rows
    for regime in REGIMES:
        mine = [row for row in rows if row[0] == regime]
        stages = [row for row in mine if str(row[1]).startswith("stage ")]
        for part in (stages, [row for row in mine if row not in stages]):  # all of the model, twice
            for share in (2, 3):  # of its numbers, and of the squared norm
                assert sum(float(row[share]) for row in part) == pytest.approx(1)
    done = analysis_command.called("recompute", run, "--only", "layer_similarity", "--points", "1000")
    assert done.returncode == 0 and "numbers hold" in done.stdout, done.stdout
