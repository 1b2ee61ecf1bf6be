# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The definitions in plain PyTorch and double precision, from a run folder, the data and the first model alone."""

from functools import cache
from pathlib import Path

import h5py
import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap
from torch.nn.functional import cross_entropy, normalize
from transformers import CLIPVisionModelWithProjection
from world import CONTROL, TASKS, World

Parameters = dict[str, Tensor]
SOURCE = {"posthoc": "standard", "attention_posthoc": "attention"}  # whose task vectors these regimes use


def is_linear(regime: str) -> bool:
    return regime in {*SOURCE, "linear", "multitask_linear"} or regime.startswith("tau_jp")


def load(folder: Path) -> CLIPVisionModelWithProjection:
    # The eager attention can be differentiated forward.
    return CLIPVisionModelWithProjection.from_pretrained(folder, attn_implementation="eager").double().eval()


def parameters(model: torch.nn.Module) -> Parameters:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def flat(p: Parameters) -> Tensor:
    return torch.cat([v.flatten() for v in p.values()])


class Oracle:
    def __init__(self, world: World, run: Path) -> None:
        self.world, self.run = world, run
        self.model = load(world.model)
        self.theta0 = parameters(self.model)
        self.results = h5py.File(run / "results.h5")
        self.files = [h5py.File(world.task(name)) for name in [*TASKS, CONTROL]]
        self.heads = [(torch.tensor(f["head/weight"][()]).double(), float(f["head/weight"].attrs["logit_scale"]))
                      for f in self.files]

    @cache  # noqa: B019 (one object a session)
    def tuned(self, regime: str, t: int) -> Parameters:
        return parameters(load(self.run / "checkpoints" / SOURCE.get(regime, regime) / TASKS[t]))

    def tau(self, regime: str, t: int) -> Parameters:
        return {k: v - self.theta0[k] for k, v in self.tuned(regime, t).items()}

    def rows(self, index: str, t: int) -> list[int]:
        return [int(i) for i in self.results[index][t] if i >= 0]

    def sample(self, split: str, t: int, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Pixels and labels of these rows of task t, in their order."""
        file = self.files[t]
        pixels = torch.tensor(file[f"{split}/inputs"][()][rows]).double() / 255
        mean, std = (torch.tensor(np.asarray(file.attrs[name])) for name in ("mean", "std"))
        return (((pixels - mean) / std).permute(0, 3, 1, 2), torch.tensor(file[f"{split}/labels"][()][rows]))

    def points(self, index: str, t: int, split: str = "test") -> tuple[Tensor, Tensor]:
        return self.sample(split, t, self.rows(index, t))

    def encode(self, p: Parameters, x: Tensor) -> Tensor:
        return functional_call(self.model, p, (), {"pixel_values": x}).image_embeds

    def logits(self, t: int, z: Tensor) -> Tensor:
        weight, scale = self.heads[t]
        return scale * normalize(z, dim=-1) @ weight.T

    def tangent(self, v: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        """f(x; θ0) and J(x)v."""
        return jvp(lambda p: self.encode(p, x), (self.theta0,), (v,))

    def output(self, regime: str, edits: dict[int, float], x: Tensor) -> Tensor:
        """The encoder's output of the edited model θ0 + Σ α τ, in its regime's function."""
        step = {k: sum((a * self.tau(regime, t)[k] for t, a in edits.items()), torch.zeros_like(v))
                for k, v in self.theta0.items()}
        if is_linear(regime):
            f, jv = self.tangent(step, x)
            return (f + jv).detach()
        with torch.no_grad():
            return self.encode({k: v + step[k] for k, v in self.theta0.items()}, x)

    def accuracy_and_loss(self, regime: str, edits: dict[int, float], t: int, index: str,
                          split: str = "test") -> tuple[float, float]:
        x, y = self.points(index, t, split)
        logits = self.logits(t, self.output(regime, edits, x))
        return float((logits.argmax(1) == y).double().mean()), float(cross_entropy(logits, y))

    def training_loss(self, regime: str, t: int, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
        if not is_linear(regime):
            return cross_entropy(self.logits(t, self.encode(p, x)), y)
        f, jv = self.tangent({k: v - self.theta0[k] for k, v in p.items()}, x)
        return cross_entropy(self.logits(t, f + jv), y)

    def largest_eigenvalue(self, regime: str, t: int) -> float:
        """Of the Hessian at θ*, in absolute value, by ARPACK."""
        x, y = self.points(f"smoothness/{regime}/sample_index", t, "train")
        theta = self.tuned(regime, t)
        size = flat(theta).numel()
        if is_linear(regime):  # linear in θ: H = Jᵀ (∇² of the loss in the output) J, with the whole J
            jacobian = torch.cat([v.flatten(2) for v in jacrev(self.encode)(self.theta0, x).values()], 2).flatten(0, 1)
            z = self.output(regime, {t: 1.0}, x)
            inner = hessian(lambda z: cross_entropy(self.logits(t, z.view(len(x), -1)), y))(z.flatten())

            def product(v: Tensor) -> Tensor:
                return jacobian.T @ (inner @ (jacobian @ v))
        else:
            gradient = grad(lambda p: self.training_loss(regime, t, p, x, y))

            def product(v: Tensor) -> Tensor:
                parts = v.split([p.numel() for p in theta.values()])
                direction = {k: part.view_as(p) for (k, p), part in zip(theta.items(), parts, strict=True)}
                return flat(jvp(gradient, (theta,), (direction,))[1])

        def operate(v: np.ndarray) -> np.ndarray:
            return product(torch.tensor(v).flatten()).detach().numpy()

        return float(eigsh(LinearOperator((size, size), operate, dtype=np.float64), k=1, which="LM", tol=1e-5, ncv=10,
                           return_eigenvectors=False)[0])

    def kernel(self, t: int, index: str) -> Tensor:
        """K [classes, n, T, n] of task t's logits at θ0, by contracting whole Jacobians."""
        x = torch.cat([self.points(index, s, "train")[0] for s in range(len(TASKS))])
        each = vmap(jacrev(lambda p, one: self.logits(t, self.encode(p, one[None]))[0]), (None, 0))
        jacobian = torch.cat([v.flatten(2) for v in each(self.theta0, x).values()], 2).detach()  # [T n, C, P]
        n = len(x) // len(TASKS)
        gram = torch.einsum("icp,jcp->cij", jacobian[t * n:(t + 1) * n], jacobian)
        return gram.unflatten(2, (len(TASKS), n))
