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
Box = tuple[int, int, int, int]  # top, left, height, width, in pixels


def seed_for(seed: int, purpose: str) -> int:
    """FNV-1a of the purpose, begun from the run's seed; 63 bits."""
    hashed = 0xCBF29CE484222325 ^ (seed * 0x9E3779B97F4A7C15 % BITS)
    for byte in purpose.encode():
        hashed = (hashed ^ byte) * 0x100000001B3 % BITS
    return hashed >> 1


def permutation(rows: int, seed: int) -> list[int]:
    order: list[int] = torch.randperm(rows, generator=torch.Generator().manual_seed(seed)).tolist()
    return order


def sample(seed: int, split: str, task: str, rows: int, wanted: int) -> list[int]:
    """The rows of a split on which a task is measured."""
    return permutation(rows, seed_for(seed, f"sample/{split}/{task}"))[: min(wanted, rows)]


def batches(seed: int, purpose: str, rows: int, count: int) -> list[int]:
    """The first `count` training rows, batch after batch: one permutation an epoch."""
    purpose_seed, epoch = seed_for(seed, purpose), 0
    drawn: list[int] = []
    while len(drawn) < count:
        drawn += permutation(rows, seed_for(purpose_seed, f"epoch{epoch}"))
        epoch += 1
    return drawn[:count]


def boxes(seed: int, count: int, height: int, width: int, least: float) -> list[Box]:
    """The crop of each picture of a batch as torchvision's RandomResizedCrop: of ten the first that fits.

    A share of the area uniform in [least, 1], a ratio of width to height uniform on a logarithmic scale.
    """
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand((count, 10, 4), generator=generator, dtype=torch.double)
    crops = []
    for tries in uniform.tolist():
        box = (0, 0, height, width)
        for area, ratio, top, left in tries:
            size = height * width * (least + (1 - least) * area)
            aspect = math.exp(math.log(3 / 4) + math.log(16 / 9) * ratio)
            h, w = round(math.sqrt(size / aspect)), round(math.sqrt(size * aspect))
            if 0 < h <= height and 0 < w <= width:
                box = (int(top * (height - h + 1)), int(left * (width - w + 1)), h, w)
                break
        crops.append(box)
    return crops


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
    inner = ["layer_norm1", *(f"{letter}_proj.{kind}" for kind in ("weight", "bias") for letter in "qkv")]
    inner += ["out_proj", "layer_norm2", "fc1", "fc2"]

    def place(name: str) -> tuple[int, int, int, bool]:
        layer = re.search(r"layers\.(\d+)\.", name)
        outer = next(index for index, part in enumerate(parts) if part in name)
        within = next((index for index, part in enumerate(inner) if part in name), 0)
        return outer, int(layer[1]) if layer else 0, within, name.endswith("bias")

    return sorted(names, key=place)


def random_theta(seed: int, config: CLIPVisionConfig, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """θ0 drawn as Hugging Face draws CLIP's image tower: normal, biases 0, gains of norms 1."""
    generator = torch.Generator().manual_seed(seed)
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
    theta = {}
    for name in in_order(parameters):
        values = torch.zeros(parameters[name].shape, dtype=torch.float32)
        deviation = next((value for part, value in deviations.items() if part in name), 0.0)
        if deviation > 0:
            values.normal_(0, deviation, generator=generator)
        elif ("norm" in name or "layrnorm" in name) and name.endswith(".weight"):
            values.fill_(1)
        theta[name] = values
    return theta


def open_clip_theta(seed: int, config: CLIPVisionConfig, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """θ0 drawn as open_clip draws CLIP's image tower: by PyTorch's own starts of its parts."""
    generator = torch.Generator().manual_seed(seed)
    width = config.hidden_size
    normal = ("class_embedding", "position_embedding", "visual_projection")
    inputs = {"patch_embedding": 0, "out_proj.weight": width, "fc1": width, "fc2": config.intermediate_size}
    theta = {}
    for name in in_order(parameters):
        values = torch.zeros(parameters[name].shape, dtype=torch.float32)
        joined = re.search(r"[qkv]_proj\.weight", name)  # three maps as one, Xavier's
        bounds = [1 / math.sqrt(count or values[0].numel()) for part, count in inputs.items() if part in name]
        if any(part in name for part in normal):
            values.normal_(0, 1 / math.sqrt(width), generator=generator)
        elif joined or bounds:
            bound = math.sqrt(6 / (4 * width)) if joined else bounds[0]
            values.uniform_(-bound, bound, generator=generator)
        elif ("norm" in name or "layrnorm" in name) and name.endswith(".weight"):
            values.fill_(1)
        theta[name] = values
    return theta
