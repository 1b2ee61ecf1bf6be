# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning again with PyTorch's own optimiser, over the same pictures in the same order."""

import math
from collections.abc import Callable
from pathlib import Path

import analysis_command
import pytest
import torch
from launch import complaint, measure, run
from peft import PeftModel
from safetensors.torch import load_file
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.oracle import Oracle, flat
from torch import Tensor
from transformers import CLIPVisionModelWithProjection
from world import CLASSES, ROWS, TASKS, World

SEED, STEPS, BATCH, WARMUP = 5, 25, 16, 3  # as in world.EXPERIMENT
PENALISED, WEIGHT = 5, 0.05  # as in world.PAPERS
FORM = 'penalty_form = "norm"\npenalty_others = "mean"\npenalty_weight = 0.05\npenalty_batch = 5\n'
RATE = {"standard": 1e-3, "linear": 2e-3}
SGD = 'optimiser = "sgd"\nschedule = "constant"\nlearning_rate = 0.05\n'


def order(purpose: str, count: int) -> list[int]:
    """Rows of all batches, end to end."""
    return draws.batches(SEED, purpose, ROWS["train"], count)


def none(theta: dict[str, Tensor], step: int) -> Tensor:
    return torch.zeros(())


RANK, ALPHA, MODULES = 3, 12.0, ("q_proj", "v_proj", "mlp.fc1")


def first_factors(oracle: Oracle, task: str) -> dict[str, Tensor]:
    """A even in ±1/√in, matrix by matrix from one seed, and B zero."""
    generator = torch.Generator().manual_seed(draws.seed_for(SEED, f"factors/{task}"))
    factors = {}
    for name in draws.in_order(oracle.theta0):
        if not name.endswith(tuple(f".{module}.weight" for module in MODULES)):
            continue
        rows, columns = oracle.theta0[name].shape
        bound = 1 / math.sqrt(columns)
        factors[f"{name} A"] = torch.empty(RANK, columns).uniform_(-bound, bound, generator=generator)
        factors[f"{name} B"] = torch.zeros(rows, RANK)
    return factors


def moved(oracle: Oracle, factors: dict[str, Tensor]) -> dict[str, Tensor]:
    """θ0 + (α/r) B A."""
    return {name: start + ALPHA / RANK * factors[f"{name} B"] @ factors[f"{name} A"]
            if f"{name} A" in factors else start for name, start in oracle.theta0.items()}


def train(oracle: Oracle, regime: str, t: int, rate: float,
          penalty: Callable[[dict[str, Tensor], int], Tensor],
          sgd: bool = False, steps: int = STEPS, linear: bool = False,
          factors: dict[str, Tensor] | None = None) -> tuple[dict[str, Tensor], list[float], list[float]]:
    """θ*, and each step's loss and penalty. The rate falls by a cosine, or `linear`; it stays with `sgd`. What is
    trained is θ, or the `factors` of a regime of low rank."""
    trained = {k: v.clone().requires_grad_() for k, v in (factors or oracle.theta0).items()}
    rule = torch.optim.SGD if sgd else torch.optim.AdamW
    optimiser = rule(trained.values(), lr=rate, weight_decay=0.1)
    rows, losses, penalties = order(f"batches/{TASKS[t]}", steps * BATCH), [], []
    for step in range(steps):
        done = (step - WARMUP) / (steps - WARMUP)
        fall = 1.0 if sgd else 1 - done if linear else 0.5 * (1 + math.cos(math.pi * done))
        factor = (step + 1) / WARMUP if step < WARMUP else fall
        optimiser.param_groups[0]["lr"] = rate * factor
        x, y = oracle.sample("train", t, rows[step * BATCH:(step + 1) * BATCH])
        theta = moved(oracle, trained) if factors else trained
        loss, penalised = oracle.training_loss(regime, t, theta, x, y), penalty(theta, step)
        optimiser.zero_grad()
        (loss + penalised).backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
        penalties.append(float(penalised.detach()))
    return moved(oracle, trained) if factors else trained, losses, penalties


@pytest.mark.parametrize("regime", RATE)
def test_fine_tuning_is_adamw_on_the_regimes_loss(run_folder: Path, regime: str) -> None:
    oracle, t = Oracle(run_folder), 1
    theta, losses, _ = train(oracle, regime, t, RATE[regime], none)
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
    theta, losses, _ = train(oracle, "standard", t, RATE["standard"], none,
                             steps=steps, linear=True)
    assert list(oracle.results["training/standard/loss"][t]) == pytest.approx(losses, rel=1e-3)
    ours, theirs = flat(oracle.tau("standard", t)), flat(theta).detach() - flat(oracle.theta0)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-2
    assert oracle.results["training/standard/loss"].shape == (3, steps)
    assert oracle.results["training/multitask/loss"].shape[-1] == 3 * steps


@pytest.fixture(scope="module")
def adapters(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What adapters of low rank were trained, and merged in the space that they span."""
    folder = tmp_path_factory.mktemp("adapters") / "run"
    text = world.experiment.read_text().split("[similarity]")[0].split("[finetune.linear]")[0]
    text = text.replace('["standard", "linear"]', f'["lora"]\nlora_rank = {RANK}\nlora_alpha = {ALPHA}\n'
                                                  f"lora_modules = {list(MODULES)}").replace("1e-3", "1e-2")
    text += '[cost]\nsteps = 1\n[merging]\nmethods = ["ties", "iso_c"]\nalpha = [1.0]\n'
    text += '[merging.iso_c]\nspace = "core"\n[merging.ties]\nspace = "knots"\n'
    measure(world.elsewhere(folder.parent / "adapters.toml", text), folder)
    return folder


def test_a_regime_of_low_rank_is_adamw_on_its_factors(adapters: Path) -> None:
    oracle, t = Oracle(adapters), 1
    theta, losses, _ = train(oracle, "standard", t, 1e-2, none, factors=first_factors(oracle, TASKS[t]))
    assert list(oracle.results["training/lora/loss"][t]) == pytest.approx(losses, rel=1e-3)
    tau = oracle.tau("lora", t)
    ours, theirs = flat(tau), flat(theta).detach() - flat(oracle.theta0)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-2
    for name, part in tau.items():
        if not name.endswith(tuple(f".{module}.weight" for module in MODULES)):
            assert not part.any(), name
            continue
        values = torch.linalg.svdvals(part.double())
        assert float(values[RANK - 1]) > 1e-3 * float(values[0]) > 1e3 * float(values[RANK]), name


def test_its_adapter_is_its_model_where_peft_loads_it(world: World, adapters: Path) -> None:
    folder = adapters / "checkpoints/lora" / TASKS[1]
    base = CLIPVisionModelWithProjection.from_pretrained(world.folder / "model")
    merged = PeftModel.from_pretrained(base, folder / "adapter").merge_and_unload()
    whole = load_file(folder / "model.safetensors")
    assert any(not torch.equal(part, load_file(world.weights)[name]) for name, part in whole.items())
    for name, part in merged.state_dict().items():
        assert torch.allclose(part, whole[name], rtol=1e-6, atol=1e-7), name


def test_numbers_of_low_rank_are_found_again(adapters: Path) -> None:
    check = analysis_command.called("recompute", adapters, "--all")
    assert check.returncode == 0, check.stdout + check.stderr
    assert "numbers hold" in check.stdout.splitlines()[-1]


@pytest.mark.parametrize(("settings", "expected"), [
    (['finetune.lora_modules=["q_proj", "c_attn"]'], ["finetune.lora_modules", '"c_attn"', "linear layer"]),
    (["finetune.lora_rank=0"], ["finetune.lora_rank"]),
    (["finetune.lora_rank=500"], ["finetune.lora_rank is 500", "expected at most"]),
    (["finetune.lora_alpha=0"], ["finetune.lora_alpha"]),
    (['merging.methods=["tsv_m"]'], ["merging.tsv_m.space", "lora", "expected core"]),
])
def test_wrong_adapters(world: World, tmp_path: Path, settings: list[str], expected: list[str]) -> None:
    settings = ['finetune.regimes=["lora"]', *settings]
    arguments = [word for setting in settings for word in ("--set", setting)]
    complaint(run(1, "run", world.experiment, "--run-dir", tmp_path / "run", *arguments), *expected)


def test_methods_of_whole_matrices_beside_adapters(world: World, tmp_path: Path) -> None:
    """They are refused where adapters are merged, not where adapters are only trained."""
    settings = ('finetune.regimes=["standard", "lora"]', 'merging.methods=["tsv_m"]', 'merging.regimes=["standard"]')
    arguments = [word for setting in settings for word in ("--set", setting)]
    done = run(1, "run", world.experiment, "--run-dir", tmp_path / "run", "--dry-run", *arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("settings", "expected"), [
    (["finetune.schedule=step"], ["finetune.schedule", "cosine, linear, constant"]),
    (["finetune.epochs=-1"], ["finetune.epochs"]),
    (["finetune.epochs=1", "finetune.warmup_steps=5"], ["warmup_steps", "is 5", "4 steps that epochs = 1 are"]),
    (["finetune.epochs=1", 'finetune.regimes=["linear", "tau_jp_continue"]'], ["finetune.epochs", "as many steps"]),
])
def test_wrong_epochs(world: World, tmp_path: Path, settings: list[str], expected: list[str]) -> None:
    arguments = [word for setting in settings for word in ("--set", setting)]
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
    attrs = oracle.results[f"training/{regime}"].attrs
    assert f"{attrs['penalty_form']}, {attrs['penalty_others']}" == form and attrs["penalty_weight"] == WEIGHT
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
