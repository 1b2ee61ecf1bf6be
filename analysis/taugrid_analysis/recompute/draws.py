# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a run draws from its one seed: samples of points, batches, a random θ0. A seed for each purpose."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import torch
from torch import Tensor
from transformers import CLIPVisionConfig

BITS = 2**64


def seed_for(seed: int, purpose: str) -> int:
    """FNV-1a of the purpose, begun from the run's seed; 63 bits."""
    hashed = 0xCBF29CE484222325 ^ (seed * 0x9E3779B97F4A7C15 % BITS)
    for byte in purpose.encode():
        hashed = (hashed ^ byte) * 0x100000001B3 % BITS
    return hashed >> 1


def permutation(rows: int, seed: int) -> list[int]:
    found: list[int] = torch.randperm(rows, generator=torch.Generator().manual_seed(seed)).tolist()
    return found


def sample(seed: int, split: str, task: str, rows: int, wanted: int) -> list[int]:
    """The rows of a split on which a task is measured."""
    return permutation(rows, seed_for(seed, f"sample/{split}/{task}"))[: min(wanted, rows)]


def batches(seed: int, purpose: str, rows: int, count: int) -> list[int]:
    """The first `count` training rows, batch after batch: one permutation an epoch."""
    own, epoch = seed_for(seed, purpose), 0
    found: list[int] = []
    while len(found) < count:
        found += permutation(rows, seed_for(own, f"epoch{epoch}"))
        epoch += 1
    return found[:count]


def in_order(names: Iterable[str]) -> list[str]:
    """The parameters of CLIP's image tower as θ holds them, one after the other.

    Embeddings, the first norm; of each layer its norm, all three weights of q, k, v, then their biases, the
    rest; the last norm, the projection.
    """
    parts = [
        "class_embedding",
        "patch_embedding",
        "position_embedding",
        "pre_layrnorm",
        "layers",
        "post",
        "visual",
    ]
    inner = ["layer_norm1", *(f"{one}_proj.{kind}" for kind in ("weight", "bias") for one in "qkv")]
    inner += ["out_proj", "layer_norm2", "fc1", "fc2"]

    def place(name: str) -> tuple[int, int, int, bool]:
        layer = re.search(r"layers\.(\d+)\.", name)
        outer = next(index for index, part in enumerate(parts) if part in name)
        within = next((index for index, part in enumerate(inner) if part in name), 0)
        return outer, int(layer[1]) if layer else 0, within, name.endswith("bias")

    return sorted(names, key=place)


def random_theta(seed: int, config: CLIPVisionConfig, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """θ0 drawn as Hugging Face draws CLIP's image tower: normal, biases 0, gains of norms 1."""
    generator = torch.Generator().manual_seed(seed_for(seed, "theta0"))
    width, factor = config.hidden_size, config.initializer_factor
    narrow = factor / math.sqrt(width)
    depth = narrow / math.sqrt(2 * config.num_hidden_layers)
    deviations = {
        "class_embedding": narrow,
        "patch_embedding": config.initializer_range * factor,
        "position_embedding": config.initializer_range * factor,
        "q_proj.weight": depth,
        "k_proj.weight": depth,
        "v_proj.weight": depth,
        "out_proj.weight": narrow,
        "visual_projection": narrow,
        "fc1.weight": factor / math.sqrt(2 * width),
        "fc2.weight": depth,
    }
    found = {}
    for name in in_order(parameters):
        values = torch.zeros(parameters[name].shape, dtype=torch.float32)
        deviation = next((value for part, value in deviations.items() if part in name), 0.0)
        if deviation > 0:
            values.normal_(0, deviation, generator=generator)
        elif ("norm" in name or "layrnorm" in name) and name.endswith(".weight"):
            values.fill_(1)
        found[name] = values
    return found
