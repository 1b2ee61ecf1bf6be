# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Seventy tasks, 2,415 pairs: few unit files, little memory, the same bits after kills."""

import json
from pathlib import Path

import h5py
import nets
import numpy as np
import pytest
from compare import differing, numbers
from launch import kill_all, leftovers, measure, start, wait_until
from nets import NetWorld
from safetensors.torch import load_file

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


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> NetWorld:
    made = nets.text_world(tmp_path_factory.mktemp("many") / "text")
    names = [f"task{t:02}" for t in range(TASKS)]
    for t, name in enumerate(names):
        nets.write_text_task(made.task(name), made.tasks[t % 3], np.random.default_rng(t))
    made.experiment.write_text(EXPERIMENT.replace("TASKS", json.dumps(names)))
    return NetWorld(made.folder, names, made.make, made.config)


def test_pairs_are_dealt_in_tiles(world: NetWorld, tmp_path: Path) -> None:
    """Killed twice, and with memory for two task vectors at a time, which are then visited on the files' pages."""
    whole = measure(world.experiment, tmp_path / "whole", ranks=4)
    folder = tmp_path / "run"
    little = ("--set", "run.memory=1e-5")

    def tiles() -> int:
        return len(list((folder / "units").glob("loss_gap__*.safetensors")))

    for finished in (3, 20):
        job = start(4, "run", world.experiment, "--run-dir", folder, *little)
        assert wait_until(lambda least=finished: tiles() > least, job)
        kill_all(job)
    ours = measure(world.experiment, folder, *little, ranks=4)
    assert differing(numbers(whole), numbers(ours)) == []
    assert leftovers(folder) == []
    assert 20 < tiles() <= 100
    with h5py.File(ours) as file:
        assert file["similarity/standard/cosine"].shape == (TASKS, TASKS)
        gap = file["similarity/standard/loss_gap"][()]
        assert gap.shape == (TASKS * (TASKS - 1) // 2, 2) and np.isfinite(gap).all() and len(np.unique(gap)) > 4000


def test_the_gram_matrix_is_that_of_the_checkpoints(world: NetWorld, tmp_path: Path) -> None:
    """In float64, from the checkpoints alone."""
    settings = ("--set", "run.memory=1e-5", "--set", 'data.pairs=["task01+task00"]')
    results = measure(world.experiment, tmp_path / "run", *settings, ranks=4)
    before = load_file(world.weights)
    vectors = []
    for name in world.tasks:
        after = load_file(tmp_path / "run" / "checkpoints" / "standard" / name / "model.safetensors")
        vectors.append(np.concatenate([(after[k].double() - before[k].double()).flatten() for k in sorted(after)]))
    tau = np.stack(vectors)
    norm = np.linalg.norm(tau, axis=1)
    with h5py.File(results) as file:
        np.testing.assert_allclose(file["similarity/standard/norm"][()], norm, rtol=1e-5)
        cosine = file["similarity/standard/cosine"][()]
    np.testing.assert_allclose(cosine, tau @ tau.T / np.outer(norm, norm), atol=1e-5)
