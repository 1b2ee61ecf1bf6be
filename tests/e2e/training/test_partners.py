# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Linear task vectors that train on under a penalty on their pair's partner alone, as figure 3 of the τJp paper."""

from pathlib import Path

import h5py
import pytest
import torch
from launch import measure, run
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.oracle import Oracle
from world import ROWS, World

TASKS = ["stripes", "blobs", "corners", "plaids"]
PARTNER = [2, 3, 0, 1]
SEED, STEPS, POINTS, WEIGHT = 5, 25, 5, 0.05


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = world.experiment.read_text().split("[similarity]")[0].replace('"corners"]', '"corners", "plaids"]')
    text = text.replace("evaluation_points", 'pairs = ["stripes+corners", "blobs+plaids"]\nevaluation_points', 1)
    text = text.replace('["standard", "linear"]', '["linear", "tau_jp_continue"]')
    text += f"[finetune.tau_jp_continue]\npenalty_weight = {WEIGHT}\npenalty_batch = {POINTS}\n"
    return world.elsewhere(tmp_path_factory.mktemp("experiment") / "partners.toml", text)


@pytest.mark.parametrize("form", ["squared", "norm"])
def test_the_penalty_is_on_the_partner_alone(experiment: Path, tmp_path: Path, form: str) -> None:
    """The first step's, of the linear task vectors themselves, in plain PyTorch and float64."""
    section = "finetune.tau_jp_continue"
    measure(experiment, tmp_path / "run", "--set", f"{section}.penalty_form={form}",
            "--set", f"{section}.penalty_tasks=partner")
    oracle = Oracle(tmp_path / "run")
    penalty = oracle.results["training/tau_jp_continue/penalty"]
    for t, other in enumerate(PARTNER):
        rows = draws.batches(SEED, f"penalty/{TASKS[t]}/{TASKS[other]}", ROWS["train"], POINTS)
        x, _ = oracle.sample("train", other, rows)
        norms = oracle.tangent(oracle.tau("linear", t), x, other)[1].norm(dim=1)
        expected = norms.mean() if form == "norm" else norms.square().mean()
        assert penalty[t, 0] == pytest.approx(WEIGHT * float(expected), rel=1e-4)
    trace = oracle.results["continuation/tau_jp_continue"]
    assert list(trace["step"]) == [0, 10, 20, STEPS]  # each ten steps, and the end
    before, after = trace["tau_jp"][0], trace["tau_jp"][-1]
    for t, other in enumerate(PARTNER):
        assert after[t, other] < before[t, other]
    assert trace["pair_normalized"].shape == (4, 2) and torch.tensor(trace["pair_normalized"][()]).isfinite().all()


def test_fewer_inputs_are_counted(experiment: Path) -> None:
    """Strict regularisation on one task instead of three takes the work of 16 + 5 inputs, not of 16 + 15."""
    work = {}
    for tasks in ("regime", "partner"):
        done = run(1, "run", experiment, "--dry-run", "--set", 'finetune.regimes=["tau_jp_strict"]', "--set",
                   f"finetune.penalty_tasks={tasks}", "--set", f"finetune.penalty_batch={POINTS}")
        assert done.returncode == 0, done.stderr
        row = next(line.split() for line in done.stdout.splitlines() if "finetune/tau_jp_strict" in line)
        work[tasks] = float(row[2])
    assert work["partner"] / work["regime"] == pytest.approx(21 / 31, rel=0.02)


def test_the_trace_may_be_finer(experiment: Path, tmp_path: Path) -> None:
    with h5py.File(measure(experiment, tmp_path / "run", "--set", "finetune.trace_every=5",
                           "--set", "finetune.steps=12")) as file:
        assert list(file["continuation/tau_jp_continue/step"]) == [0, 5, 10, 12]
