# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Seventy tasks, 2,415 pairs: few unit files, little memory, the same bits after kills."""

import json
import shutil
from pathlib import Path

import h5py
import launch
import net_worlds
import numpy as np
import pytest
from compare import differing, numbers
from launch import kill_all, leftovers, measure, start, wait_until
from net_worlds import NetWorld
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from world import misaligned

TASKS = 70
EXPERIMENT = """
[run]
name = "many"
seed = 3
threads_per_rank = 1

[model]
path = "model"

[data]
folder = "data"
tasks = TASKS
evaluation_points = 8
evaluation_batch = 8

[finetune]
regimes = ["standard"]
steps = 3
batch = 4
warmup_steps = 0
learning_rate = 1e-3

[similarity]
"""
LITTLE = ("--set", "run.memory=1e-5")
PAIR = ("--set", 'data.pairs=["task01+task00"]')


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> NetWorld:
    # Some stretches of the words' numbers of a Gram matrix lie in one parameter.
    text_world = net_worlds.text_world(tmp_path_factory.mktemp("many") / "text", net_worlds.TEXT | {"vocab_size": 500})
    names = [f"task{t:02}" for t in range(TASKS)]
    for t, name in enumerate(names):
        net_worlds.write_text_task(text_world.task(name), text_world.tasks[t % 3], np.random.default_rng(t),
                                   text_world.config)
    text_world.experiment.write_text(EXPERIMENT.replace("TASKS", json.dumps(names)))
    return NetWorld(text_world.folder, names, text_world.make, text_world.config)


def test_pairs_are_dealt_in_tiles(world: NetWorld, tmp_path: Path) -> None:
    """Killed twice, and with memory for two task vectors at a time, which are then visited on the files' pages."""
    whole = measure(world.experiment, tmp_path / "whole", ranks=4)
    folder = tmp_path / "run"

    def tiles() -> int:
        return len(list((folder / "units").glob("loss_gap__*.safetensors")))

    for finished in (3, 20):
        job = start(4, "run", world.experiment, "--run-dir", folder, *LITTLE)
        assert wait_until(lambda least=finished: tiles() > least, job)
        kill_all(job)
    ours = measure(world.experiment, folder, *LITTLE, ranks=4)
    assert differing(numbers(whole), numbers(ours)) == []
    assert leftovers(folder) == []
    assert 20 < tiles() <= 100
    with h5py.File(ours) as file:
        assert file["similarity/standard/cosine"].shape == (TASKS, TASKS)
        gap = file["similarity/standard/loss_gap"][()]
        assert gap.shape == (TASKS * (TASKS - 1) // 2, 2) and np.isfinite(gap).all() and len(np.unique(gap)) > 4000


@pytest.fixture(scope="module")
def run(world: NetWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    measure(world.experiment, folder, *LITTLE, *PAIR, ranks=4)
    return folder


def test_the_gram_matrix_is_that_of_the_checkpoints(world: NetWorld, run: Path) -> None:
    """The reference is computed in float64 from the checkpoints alone."""
    before = load_file(world.weights)
    vectors = []
    for name in world.tasks:
        after = load_file(run / "checkpoints" / "standard" / name / "model.safetensors")
        vectors.append(np.concatenate([(after[k].double() - before[k].double()).flatten() for k in sorted(after)]))
    tau = np.stack(vectors)
    norm = np.linalg.norm(tau, axis=1)
    with h5py.File(run / "results.h5") as file:
        np.testing.assert_allclose(file["similarity/standard/norm"][()], norm, rtol=1e-5)
        cosine = file["similarity/standard/cosine"][()]
    np.testing.assert_allclose(cosine, tau @ tau.T / np.outer(norm, norm), atol=1e-5)


def given(folder: Path) -> tuple[str, ...]:
    return (*launch.given_by(folder, ("standard",)), *LITTLE, *PAIR)


def test_models_whose_numbers_are_not_aligned(world: NetWorld, run: Path, tmp_path: Path) -> None:
    """Some lie in their files where float32 cannot be read: the same bits."""
    shutil.copytree(run / "checkpoints", tmp_path / "checkpoints")
    for name in world.tasks[5::7]:
        misaligned(tmp_path / "checkpoints" / "standard" / name / "model.safetensors")
    again = measure(world.experiment, tmp_path / "run", *given(tmp_path))
    with h5py.File(run / "results.h5") as ours, h5py.File(again) as theirs:
        for name in ("cosine", "norm", "mask_overlap", "sign_conflict", "sign_conflict_all"):
            path = f"similarity/standard/{name}"
            np.testing.assert_array_equal(ours[path][()], theirs[path][()], err_msg=name)


def test_a_given_model_with_a_number_that_is_none(world: NetWorld, run: Path, tmp_path: Path) -> None:
    """Whichever unit reads it first says where it is."""
    shutil.copytree(run / "checkpoints", tmp_path / "checkpoints")
    wrong = tmp_path / "checkpoints" / "standard" / world.tasks[40] / "model.safetensors"
    with safe_open(wrong, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(wrong)
    name = max(tensors, key=lambda key: tensors[key].numel())
    tensors[name].view(-1)[tensors[name].numel() // 2] = np.nan
    save_file(tensors, wrong, metadata)
    done = launch.run(2, "run", world.experiment, "--run-dir", tmp_path / "run", *given(tmp_path))
    assert done.returncode == 2, done.stderr
    assert f"{wrong}: {name} holds NaN or infinity" in done.stderr
