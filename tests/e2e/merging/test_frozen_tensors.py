# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merges of vectors that are zero in most tensors: those of the attention regime."""

from pathlib import Path

import analysis_command
import launch
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from taugrid_analysis.quantities.merging import data_formulas, data_recompute, oracle_models, recompute
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.oracle import Oracle, flat
from torch.func import jacrev
from torch.nn.functional import softmax
from world import EXPERIMENT, T, World

REGIMES = ("standard", "attention")
OF_MATRICES = ("iso_c", "tsv_m", "iso_cts", "wudi", "cart", "dc_merge")
MERGED = f"""
[merging]
methods = {["fisher", *OF_MATRICES]}
alpha = [0.3, 1.0]
save = true

[merging.fisher]
points = 6
floor = 1e-4
"""


@pytest.fixture(scope="module")
def run(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen")
    text = EXPERIMENT.split("[similarity]")[0].replace('["standard", "linear"]', '["standard", "attention"]')
    text = text.replace("steps = 25", "steps = 150")  # until most answers are certain
    launch.measure(world.elsewhere(folder / "frozen.toml", text + MERGED), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def oracle(run: Path) -> Oracle:
    return Oracle(run)


def merged(run: Path, method: str, regime: str) -> np.ndarray:
    return load_file(run / "units" / f"merging__{method}__{regime}.safetensors")["tau"].astype(np.float64)


def in_order(tau: dict[str, torch.Tensor]) -> np.ndarray:
    return np.concatenate([tau[name].numpy().ravel() for name in draws.in_order(tau)])


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("method", OF_MATRICES)
def test_what_was_frozen_stays_where_it_was(run: Path, oracle: Oracle, method: str, regime: str) -> None:
    """The sum of vectors that are zero has no singular vectors: its mean singular value is 0, and so is the merge."""
    every = [oracle.tau(regime, t) for t in T]
    again = in_order(recompute.merged(method, oracle.inputs.config["merging"][method], every))
    vector = merged(run, method, regime)
    assert np.isfinite(again).all() and np.isfinite(vector).all()
    np.testing.assert_allclose(vector, again, atol=2e-3 * np.sqrt(np.mean(again**2)))
    frozen = np.concatenate([np.full(every[0][name].numel(), not any(tau[name].any() for tau in every))
                             for name in draws.in_order(every[0])])
    assert frozen.any() == (regime == "attention") and not vector[frozen].any()


@pytest.mark.parametrize("regime", REGIMES)
def test_fisher_is_the_diagonal_of_the_logits_form(run: Path, oracle: Oracle, regime: str) -> None:
    """A third way to Σ_c p_c (∂ log p_c)², in double: the diagonal of Jᵀ(diag p − p pᵀ)J, J the Jacobian of the logits,
    an input after another. It is the same, since ∂ log p_c = ∂z_c − Σ_k p_k ∂z_k."""
    settings = oracle.inputs.config["merging"]["fisher"]
    models = oracle_models.fine_tuned_models(oracle, regime)
    every = []
    for t, model in zip(T, models, strict=True):
        theta = model.theta()
        total = {name: torch.zeros_like(v) for name, v in theta.items()}
        inputs = data_recompute.inputs(oracle, f"merging/fisher/{regime}", t)
        for x in inputs:
            def logits(given: dict[str, torch.Tensor], x: torch.Tensor = x, t: int = t,
                       model: oracle_models.Model = model) -> torch.Tensor:
                return oracle.logits(t, oracle.read(model.statistics() | given, x[None], t))[0]

            p = softmax(logits(theta), 0).detach()
            middle = torch.diag(p) - torch.outer(p, p)
            for name, j in jacrev(logits)(theta).items():
                j = j.detach().flatten(1)
                total[name] += ((middle @ j) * j).sum(0).view_as(total[name]) / len(inputs)
        every.append(total)
    expected = in_order(data_formulas.by_fisher(models, every, settings))
    vector = merged(run, "fisher", regime)
    assert np.abs(vector - expected).max() < 2e-3 * np.sqrt(np.mean(expected**2))
    for t in T:
        stored = oracle.results[f"merging/fisher/{regime}"]
        assert stored["norm"][t] == pytest.approx(float(flat(every[t]).norm()), rel=1e-3)
        assert stored["floored"][t] == pytest.approx(
            float((flat(every[t]) < settings["floor"]).double().mean()), abs=2e-3)


def test_recompute_holds(run: Path) -> None:
    done = analysis_command.called("recompute", run, "--points", "60", "--only", "merging", "--only", "correct")
    assert done.returncode == 0, done.stdout + done.stderr
