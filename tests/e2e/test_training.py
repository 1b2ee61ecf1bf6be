# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning again with PyTorch's own optimiser, over the same pictures in the same order."""

import math
from pathlib import Path

import pytest
import torch
from oracle import Oracle, flat
from world import ROWS, TASKS, World

SEED, STEPS, BATCH, WARMUP = 5, 25, 16, 3  # as in world.EXPERIMENT
RATE = {"standard": 1e-3, "linear": 2e-3}


def seed_for(seed: int, purpose: str) -> int:
    """A seed for one purpose: FNV-1a of its name, begun from the run's seed."""
    hashed = 0xCBF29CE484222325 ^ (seed * 0x9E3779B97F4A7C15 % 2**64)
    for byte in purpose.encode():
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return hashed >> 1


def order(t: int) -> list[int]:
    """Rows of all batches, end to end: one permutation an epoch."""
    seed, rows, epoch = seed_for(SEED, f"batches/{TASKS[t]}"), [], 0
    while len(rows) < STEPS * BATCH:
        generator = torch.Generator().manual_seed(seed_for(seed, f"epoch{epoch}"))
        rows += torch.randperm(ROWS["train"], generator=generator).tolist()
        epoch += 1
    return rows


@pytest.mark.parametrize("regime", RATE)
def test_fine_tuning_is_adamw_on_the_regimes_loss(world: World, run_folder: Path, regime: str) -> None:
    oracle, t = Oracle(world, run_folder), 1
    theta = {k: v.clone().requires_grad_() for k, v in oracle.theta0.items()}
    optimiser = torch.optim.AdamW(theta.values(), lr=RATE[regime], weight_decay=0.1)
    rows, losses = order(t), []
    for step in range(STEPS):
        done = (step - WARMUP) / (STEPS - WARMUP)
        factor = (step + 1) / WARMUP if step < WARMUP else 0.5 * (1 + math.cos(math.pi * done))
        optimiser.param_groups[0]["lr"] = RATE[regime] * factor
        x, y = oracle.sample("train", t, rows[step * BATCH:(step + 1) * BATCH])
        loss = oracle.training_loss(regime, t, theta, x, y)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theta.values(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
    assert list(oracle.results[f"training/{regime}/loss"][t]) == pytest.approx(losses, rel=1e-3)
    ours, theirs = flat(oracle.tau(regime, t)), flat(theta).detach() - flat(oracle.theta0)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-2
