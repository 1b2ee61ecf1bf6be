# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The small models' numbers again, in plain PyTorch and float64: padded texts, tied vocabularies, all readouts, batch
norm's stored statistics."""

from functools import cached_property
from pathlib import Path

import h5py
import net_worlds
import numpy as np
import pytest
import torch
from launch import measure
from net_worlds import NetWorld
from safetensors.torch import load_file
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.oracle import Parameters, flat, largest_eigenvalue
from torch import Tensor
from torch.func import functional_call, grad, jacrev, jvp, vjp
from torch.nn.functional import cross_entropy, normalize
from world import ROWS

REGIMES = ["standard", "linear"]
T = range(3)


class NetOracle:
    """A task's output, which is linearised, is the features or, with label words, the logits; see logits()."""

    def __init__(self, world: NetWorld, run: Path) -> None:
        self.world, self.run = world, run
        self.results = h5py.File(run / "results.h5")
        self.files = [h5py.File(world.task(name)) for name in world.tasks]
        self.kinds = [file["head"].attrs.get("kind", "cosine") for file in self.files]
        self.model = world.make(world.config).double().eval()
        self.trained = [name for name, _ in self.model.named_parameters()]

    @cached_property
    def start(self) -> Parameters:
        return {name: t.double() for name, t in load_file(self.world.weights).items()}

    def tuned(self, regime: str, t: int) -> Parameters:
        """Parameters and stored statistics."""
        folder = self.run / "checkpoints" / regime / self.world.tasks[t]
        return {name: v.double() for name, v in load_file(folder / "model.safetensors").items()}

    def points(self, index: str, t: int, split: str = "test") -> tuple[tuple[Tensor, ...], Tensor]:
        rows = [int(row) for row in self.results[index][t] if row >= 0]
        labels = torch.tensor(self.files[t][f"{split}/labels"][()])[rows]
        return tuple(tensor[rows] for tensor in self.split(t, split)), labels

    def split(self, t: int, split: str) -> tuple[Tensor, ...]:
        file = self.files[t]
        inputs = torch.tensor(file[f"{split}/inputs"][()])
        if f"{split}/lengths" in file:
            return inputs.long(), torch.tensor(file[f"{split}/lengths"][()]).long()
        mean, std = (torch.tensor(np.asarray(file.attrs[name])).double() for name in ("mean", "std"))
        return (((inputs.double() / 255 - mean) / std).permute(0, 3, 1, 2),)

    def output(self, p: Parameters, t: int, x: tuple[Tensor, ...]) -> Tensor:
        z: Tensor = functional_call(self.model, p, x)
        if self.kinds[t] != "words":
            return z
        rows, classifier = torch.tensor(self.files[t]["head/tokens"][()]), getattr(self.model, "classifier_name", "")
        if classifier:
            return z @ p[f"{classifier}.weight"][rows].T + p[f"{classifier}.bias"][rows]
        return z @ p["embeddings.word.weight"][rows].T

    def logits(self, t: int, z: Tensor) -> Tensor:
        if self.kinds[t] == "words":
            return z
        head = self.files[t]["head"]
        weight = torch.tensor(head["weight"][()]).double()
        if self.kinds[t] == "affine":
            return z @ weight.T + torch.tensor(head["bias"][()]).double()
        return float(head["weight"].attrs["logit_scale"]) * normalize(z, dim=-1) @ weight.T

    def tangent(self, t: int, x: tuple[Tensor, ...], tau: Parameters) -> tuple[Tensor, Tensor]:
        """f(x; θ0) and J(x)τ, by the stored statistics that θ0 came with."""
        theta = {name: self.start[name] for name in self.trained}
        pair = jvp(lambda p: self.output(self.start | p, t, x), (theta,), ({k: tau[k] for k in theta},))
        return pair[0], pair[1]

    def logits_of(self, regime: str, theta: Parameters, t: int, x: tuple[Tensor, ...]) -> Tensor:
        if regime == "standard":
            return self.logits(t, self.output(theta, t, x))
        f, jv = self.tangent(t, x, {name: theta[name] - self.start[name] for name in self.trained})
        return self.logits(t, f + jv)

    def eigenvalue(self, regime: str, t: int) -> float:
        """The largest in absolute value of the training loss's Hessian at θ*, by ARPACK."""
        x, y = self.points(f"smoothness/{regime}/sample_index", t, "train")
        tuned = self.tuned(regime, t)
        theta = {name: tuned[name] for name in self.trained}

        if regime == "linear":  # linear in θ: H = Jᵀ (∇² of the loss in the output) J
            start = {name: self.start[name] for name in theta}
            f, jv = self.tangent(t, x, {name: p - start[name] for name, p in theta.items()})
            z, back = f + jv, vjp(lambda p: self.output(self.start | p, t, x), start)[1]
            outer = grad(lambda z: cross_entropy(self.logits(t, z), y))

            def product(v: Parameters) -> Tensor:
                return flat(back(jvp(outer, (z,), (self.tangent(t, x, v)[1],))[1])[0])
        else:
            gradient = grad(lambda p: cross_entropy(self.logits(t, self.output(tuned | p, t, x)), y))

            def product(v: Parameters) -> Tensor:
                return flat(jvp(gradient, (theta,), (v,))[1])

        return largest_eigenvalue(theta, product)


@pytest.fixture(scope="module", params=["text", "resnet", "mlp"])
def oracle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NetOracle:
    return NetOracle(*net_worlds.finished(tmp_path_factory.getbasetemp(), request.param))


@pytest.mark.parametrize("regime", ["pretrained", *REGIMES])
def test_accuracy_and_loss(oracle: NetOracle, regime: str) -> None:
    group = oracle.results[f"single_task/{regime}"]
    for t in T:
        x, y = oracle.points(f"{group.name}/sample_index", t)
        theta = oracle.start if regime == "pretrained" else oracle.tuned(regime, t)
        logits = oracle.logits_of("linear" if regime == "linear" else "standard", theta, t, x)
        assert group["accuracy"][t] == pytest.approx(float((logits.argmax(1) == y).double().mean()), abs=1e-12)
        assert group["loss"][t] == pytest.approx(float(cross_entropy(logits, y)), rel=1e-4)


def test_tau_jp(oracle: NetOracle) -> None:
    """Outputs are compared in the space that each task's readout says."""
    group = oracle.results["tau_jp/linear"]
    spaces = ["logits" if kind == "words" else "encoder output" for kind in oracle.kinds]
    assert [space.decode() for space in oracle.results["tasks/space"][()]] == spaces
    assert group.attrs["space"] == (spaces[0] if len(set(spaces)) == 1 else "by task")
    for a in T:
        tuned = oracle.tuned("linear", a)
        tau = {name: tuned[name] - oracle.start[name] for name in oracle.trained}
        for b in T:
            product = oracle.tangent(b, oracle.points(f"{group.name}/sample_index", b)[0], tau)[1]
            assert group["value"][a, b] == pytest.approx(float(product.square().sum(1).mean()), rel=1e-4)


@pytest.mark.parametrize("regime", REGIMES)
def test_largest_eigenvalue(oracle: NetOracle, regime: str) -> None:
    group = oracle.results[f"smoothness/{regime}"]
    for t in T:
        assert group["lambda_max"][t] == pytest.approx(oracle.eigenvalue(regime, t), rel=group["residual"][t] + 2e-5)


def test_tangent_kernel(oracle: NetOracle) -> None:
    """Whole Jacobians of the logits: a vocabulary that is looked up and read out has both uses' gradients."""
    group = oracle.results["ntk/pretrained"]
    theta = {name: oracle.start[name] for name in oracle.trained}
    index = f"{group.name}/sample_index"
    everyone = [oracle.points(index, s, "train")[0] for s in T]
    for t in T:
        rows = []
        for x in everyone:
            jacobian = jacrev(lambda p, t=t, x=x: oracle.logits(t, oracle.output(oracle.start | p, t, x)))(theta)
            rows.append(torch.cat([part.flatten(2) for part in jacobian.values()], 2))  # [n, C, P]
        whole = torch.stack(rows)
        logits = min(whole.shape[2], group["gram"].shape[1])
        kernel = torch.einsum("icp,sjcp->cisj", whole[t], whole)[:logits].numpy()
        ours = group["gram"][t, :logits]
        assert np.linalg.norm(ours - kernel) / np.linalg.norm(kernel) < 1e-5


@pytest.mark.parametrize("form", ["squared", "norm"])
def test_penalty_of_a_first_step(oracle: NetOracle, tmp_path: Path, form: str) -> None:
    """λ E‖J(x)τ‖² or λ E‖J(x)τ‖ of the linear task vectors, on another task's first batch, in its readout's space."""
    seed, points, weight = 5, 5, 0.01  # as in world.EXPERIMENT and net_worlds
    settings = ['finetune.regimes=["linear", "tau_jp_continue"]', "finetune.steps=4", f"finetune.penalty_form={form}"]
    experiment = tmp_path / "first_step.toml"
    text = oracle.world.experiment.read_text().split("[similarity]")[0]
    experiment.write_text(text.replace('"model"', f'"{oracle.world.weights.parent}"').replace(
        '"data"', f'"{oracle.world.task("x").parent}"'))
    measure(experiment, tmp_path / "run", *(word for setting in settings for word in ("--set", setting)))
    mine = NetOracle(oracle.world, tmp_path / "run")
    for t in T:
        other = int(t == 0)  # the first of the others
        rows = draws.batches(seed, f"penalty/{mine.world.tasks[t]}/{mine.world.tasks[other]}", ROWS["train"], points)
        x = tuple(tensor[rows] for tensor in mine.split(other, "train"))
        tuned = mine.tuned("linear", t)
        norms = mine.tangent(other, x, {name: tuned[name] - mine.start[name] for name in mine.trained})[1].norm(dim=1)
        expected = norms.mean() if form == "norm" else norms.square().mean()
        assert mine.results["training/tau_jp_continue/penalty"][t, 0] == pytest.approx(
            weight * float(expected), rel=1e-4)
