# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning again with PyTorch's own optimiser, over the same pictures in the same order."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from launch import complaint, measure, run
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.oracle import Oracle, flat
from torch import Tensor
from world import CLASSES, ROWS, TASKS, World

SEED, STEPS, BATCH, WARMUP = 5, 25, 16, 3  # as in world.EXPERIMENT
PENALISED, WEIGHT = 5, 0.05  # as in world.PAPERS
FORM = 'penalty_form = "norm"\npenalty_others = "mean"\npenalty_weight = 0.05\npenalty_batch = 5\n'
RATE = {"standard": 1e-3, "linear": 2e-3}
SGD = 'optimiser = "sgd"\nschedule = "constant"\nlearning_rate = 0.05\n'


def order(purpose: str, count: int) -> list[int]:
    """Rows of all batches, end to end."""
    return draws.batches(SEED, purpose, ROWS["train"], count)


def train(oracle: Oracle, regime: str, t: int, rate: float,
          penalty: Callable[[dict[str, Tensor], int], Tensor],
          sgd: bool = False, steps: int = STEPS,
          linear: bool = False) -> tuple[dict[str, Tensor], list[float], list[float]]:
    """θ*, and each step's loss and penalty. The rate falls by a cosine, or `linear`; it stays with `sgd`."""
    theta = {k: v.clone().requires_grad_() for k, v in oracle.theta0.items()}
    rule = torch.optim.SGD if sgd else torch.optim.AdamW
    optimiser = rule(theta.values(), lr=rate, weight_decay=0.1)
    rows, losses, penalties = order(f"batches/{TASKS[t]}", steps * BATCH), [], []
    for step in range(steps):
        done = (step - WARMUP) / (steps - WARMUP)
        fall = 1.0 if sgd else 1 - done if linear else 0.5 * (1 + math.cos(math.pi * done))
        factor = (step + 1) / WARMUP if step < WARMUP else fall
        optimiser.param_groups[0]["lr"] = rate * factor
        x, y = oracle.sample("train", t, rows[step * BATCH:(step + 1) * BATCH])
        loss, penalised = oracle.training_loss(regime, t, theta, x, y), penalty(theta, step)
        optimiser.zero_grad()
        (loss + penalised).backward()
        torch.nn.utils.clip_grad_norm_(theta.values(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
        penalties.append(float(penalised.detach()))
    return theta, losses, penalties


@pytest.mark.parametrize("regime", RATE)
def test_fine_tuning_is_adamw_on_the_regimes_loss(run_folder: Path, regime: str) -> None:
    oracle, t = Oracle(run_folder), 1
    theta, losses, _ = train(oracle, regime, t, RATE[regime], lambda theta, step: torch.zeros(()))
    assert list(oracle.results[f"training/{regime}/loss"][t]) == pytest.approx(losses, rel=1e-3)
    ours, theirs = flat(oracle.tau(regime, t)), flat(theta).detach() - flat(oracle.theta0)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-2


def test_a_linear_schedule_and_epochs_of_each_tasks_own_points(world: World, tmp_path: Path) -> None:
    """Seven epochs of 60 points in batches of 16 are 27 steps; the model of all tasks has three times as many."""
    text = world.experiment.read_text().split("[similarity]")[0]
    text = text.replace('["standard", "linear"]', '["standard", "multitask"]').replace("steps = 25", "epochs = 7")
    text = text.replace("warmup_steps", 'schedule = "linear"\nwarmup_steps').split("[finetune.linear]")[0]
    measure(world.elsewhere(tmp_path / "epochs.toml", text), tmp_path / "run")
    oracle, t, steps = Oracle(tmp_path / "run"), 1, 27
    theta, losses, _ = train(oracle, "standard", t, RATE["standard"], lambda theta, step: torch.zeros(()),
                             steps=steps, linear=True)
    assert list(oracle.results["training/standard/loss"][t]) == pytest.approx(losses, rel=1e-3)
    ours, theirs = flat(oracle.tau("standard", t)), flat(theta).detach() - flat(oracle.theta0)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-2
    assert oracle.results["training/standard/loss"].shape == (3, steps)
    assert oracle.results["training/multitask/loss"].shape[-1] == 3 * steps


@pytest.mark.parametrize(("settings", "expected"), [
    (["finetune.schedule=step"], ["finetune.schedule", "cosine, linear, constant"]),
    (["finetune.epochs=-1"], ["finetune.epochs"]),
    (["finetune.epochs=1", "finetune.warmup_steps=5"], ["warmup_steps", "is 5", "4 steps that epochs = 1 are"]),
    (["finetune.epochs=1", 'finetune.regimes=["linear", "tau_jp_continue"]'], ["finetune.epochs", "as many steps"]),
])
def test_wrong_epochs(world: World, tmp_path: Path, settings: list[str], expected: list[str]) -> None:
    arguments = [word for one in settings for word in ("--set", one)]
    complaint(run(1, "run", world.experiment, "--run-dir", tmp_path / "run", *arguments), *expected)


@pytest.fixture(scope="module")
def as_the_code(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The penalty as the authors' code has it: norms, and of several tasks the mean; one regime by plain descent."""
    folder = tmp_path_factory.mktemp("as_the_code") / "run"
    text = world.experiment.read_text().split("[similarity]")[0].replace('"corners"]', '"corners"]\ncontrol = "plaids"')
    text = text.replace('["standard", "linear"]', '["tau_jp", "tau_jp_strict"]') + "[finetune.tau_jp]\n" + FORM
    text += "[finetune.tau_jp_strict]\n" + FORM + SGD
    measure(world.elsewhere(folder.parent / "as_the_code.toml", text), folder)
    return folder


@pytest.mark.parametrize("regime", ["tau_jp", "tau_jp_strict"])
@pytest.mark.parametrize("form", ["squared, sum", "norm, mean"])
def test_the_tau_jp_penalty(request: pytest.FixtureRequest, regime: str, form: str) -> None:
    """λ Σ E‖J(x)(θ − θ0)‖² over all other tasks and the control, or over one of them a step, in turn; or the mean of
    the norms."""
    norm = form == "norm, mean"
    oracle, t = Oracle(request.getfixturevalue("as_the_code" if norm else "papers_folder")), 1
    told = oracle.results[f"training/{regime}"].attrs
    assert f"{told['penalty_form']}, {told['penalty_others']}" == form and told["penalty_weight"] == WEIGHT
    names = list(CLASSES)
    others = [u for u in range(len(names)) if u != t]
    rows = {u: order(f"penalty/{TASKS[t]}/{names[u]}", STEPS * PENALISED) for u in others}

    def penalty(theta: dict[str, Tensor], step: int) -> Tensor:
        strict = regime == "tau_jp_strict"
        each = []
        for u in others if strict else [others[step % len(others)]]:
            turn = step if strict else step // len(others)
            x, _ = oracle.sample("train", u, rows[u][turn * PENALISED:(turn + 1) * PENALISED])
            tangent = oracle.tangent({k: v - oracle.theta0[k] for k, v in theta.items()}, x, u)[1]
            each.append(tangent.norm(dim=1).mean() if norm else tangent.square().sum(1).mean())
        return WEIGHT * (torch.stack(each).mean() if norm else torch.stack(each).sum())

    sgd = norm and regime == "tau_jp_strict"
    theta, losses, penalties = train(oracle, regime, t, 0.05 if sgd else 1e-3, penalty, sgd)
    assert list(oracle.results[f"training/{regime}/loss"][t]) == pytest.approx(losses, rel=1e-3)
    assert list(oracle.results[f"training/{regime}/penalty"][t]) == pytest.approx(penalties, rel=1e-3)
    ours, theirs = flat(oracle.tau(regime, t)), flat(theta).detach() - flat(oracle.theta0)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-2
