# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A regime trains its own parameters, and no bit of any other changes."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from launch import measure
from safetensors.numpy import load_file
from world import TASKS, World

ATTENTION, MLP = "self_attn.", ".mlp."
TRAINED = {
    "attention": lambda name: ATTENTION in name and name.endswith("weight"),
    "attention+bias": lambda name: ATTENTION in name,
    "attention+mlp": lambda name: (ATTENTION in name or MLP in name) and name.endswith("weight"),
    "attention+mlp+bias": lambda name: ATTENTION in name or MLP in name,
    "lora": lambda name: (ATTENTION in name or MLP in name) and name.endswith("weight"),
}


@pytest.fixture(scope="module")
def run(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("regimes") / "run"
    measure(world.experiment, folder, "--set", f"finetune.regimes={json.dumps(list(TRAINED))}",
            "--set", "finetune.lora.learning_rate=1e-2")
    return folder


@pytest.mark.parametrize("regime", TRAINED)
def test_only_the_trained_group_changes(world: World, run: Path, regime: str) -> None:
    before = load_file(world.weights)
    for task in TASKS:
        after = load_file(run / "checkpoints" / regime / task / "model.safetensors")
        changed = {name for name in before if before[name].tobytes() != after[name].tobytes()}
        assert changed == {name for name in before if TRAINED[regime](name)}


@pytest.mark.parametrize("regime", TRAINED)
def test_training_helps_and_all_is_measured(run: Path, regime: str) -> None:
    with h5py.File(run / "results.h5") as file:
        loss = file[f"training/{regime}/loss"][()]
        assert (loss[:, -5:].mean(1) < 0.9 * loss[:, :5].mean(1)).all()
        for path in ("single_task/{}/accuracy", "similarity/{}/norm", "disentanglement/{}/error",
                     "smoothness/{}/lambda_max", "addition/{}/absolute"):
            assert np.isfinite(file[path.format(regime)][()]).all(), path
