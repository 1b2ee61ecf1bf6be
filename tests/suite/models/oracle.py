# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a model's derivative products are, by torch.func, beside those that model_probe computed."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.func import grad, jacrev, jvp
from torch.nn.functional import cross_entropy

Parameters = dict[str, Tensor]


def relative(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).detach().norm() / theirs.detach().norm())


def flat(of: Parameters, theta: Parameters, prefix: str = "") -> Tensor:
    """The numbers of `of`, whose names have a prefix, in the order of θ. It has all of them and no others."""
    assert not prefix or {name for name in of if name.startswith(prefix)} == {prefix + name for name in theta}
    return torch.cat([of[prefix + name].flatten() for name in theta])


def assert_products_agree(out: Parameters, theta: Parameters, tau: Parameters,
                          logits: Callable[[Parameters, slice], Tensor], labels: Tensor) -> None:
    """`logits(p, rows)` are those of some of the samples, [rows, classes]; the loss is their cross-entropy.

    Compared are J(x)τ, the loss, ∇L, Hτ, per-sample gradients of the sum of logits, and the first two logits' NTK.
    """
    every = slice(None)

    def loss(p: Parameters) -> Tensor:
        return cross_entropy(logits(p, every), labels)

    along = jvp(lambda p: logits(p, every), (theta,), (tau,))[1]
    assert relative(out["jvp_logits"], along) < 1e-11
    assert abs(float(out["loss"]) - float(loss(theta))) < 1e-6 * float(out["loss"])
    assert relative(flat(out, theta, "gradient."), flat(grad(loss)(theta), theta)) < 1e-10
    assert relative(flat(out, theta, "hvp."), flat(jvp(grad(loss), (theta,), (tau,))[1], theta)) < 1e-10

    def jacobian(i: int) -> Tensor:
        """The Jacobian for one sample alone [classes, P]."""
        derivatives = jacrev(lambda p: logits(p, slice(i, i + 1))[0])(theta)
        return torch.cat([v.flatten(1) for v in derivatives.values()], 1)

    rows = torch.stack([jacobian(i) for i in range(len(labels))])  # [n, classes, P]
    assert relative(out["per_sample_norm"], rows.sum(1).norm(dim=1)) < 1e-10
    assert relative(flat(out, theta, "per_sample_sum."), rows.sum((0, 1))) < 1e-10
    for c in range(2):
        gram = rows[:, c] @ rows[:, c].T
        assert relative(out["gram"][c], gram) < 1e-10
        assert relative(out["gram_factors"][c], gram[1:]) < 1e-10


# generation_config.json (empty: none) and config.json, and the tokens that end a text, as transformers has it.
ENDS = [
    (({"eos_token_id": [7, 9]}, {"eos_token_id": 5}), [7, 9]),
    (({"eos_token_id": None}, {"eos_token_id": 5}), [5]),
    (({}, {"eos_token_id": 5}), [5]),
]


def name_ends(folder: Path, generation: dict, config: dict) -> None:
    """Has a model's files say these."""
    ours, beside = folder / "config.json", folder / "generation_config.json"
    ours.write_text(json.dumps(json.loads(ours.read_text()) | config))
    beside.unlink()
    if generation:
        beside.write_text(json.dumps(generation))
