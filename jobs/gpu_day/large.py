# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes an experiment of the papers' size into a folder: CLIP's ViT-B/32 of 88 million numbers, drawn at random, and
three tasks of noisy pictures of 224 pixels. It says what such a run costs, and nothing about accuracies."""

from __future__ import annotations

import argparse
from pathlib import Path

import h5py
import numpy as np
import torch
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

TASKS, CLASSES = ("one", "two", "three"), 10
EXPERIMENT = """\
[run]
name = "large"
seed = 1
threads_per_rank = {threads}

[model]
path = "model"

[data]
folder = "data"
tasks = ["one", "two", "three"]
evaluation_points = {points}
evaluation_batch = {points}

[finetune]
regimes = ["standard", "linear"]
steps = {steps}
batch = {batch}
warmup_steps = 2
learning_rate = 1e-5
weight_decay = 0.1

[similarity]

[disentanglement]
alpha = {{ from = -1.0, to = 1.0, count = {count} }}
points = {points}
linear_points = {points}

[smoothness]
points = {points}
max_basis = 6
tolerance = 1e-2

[ntk]
points = {ntk}
logits = 2

[addition]
alpha = {{ from = 0.0, to = 1.0, count = 11 }}
"""


def write_task(path: Path, seed: int, rows: dict[str, int], pixels: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    patterns = np.kron(rng.uniform(0, 255, (CLASSES, 7, 7, 3)), np.ones((1, pixels // 7, pixels // 7, 1)))
    with h5py.File(path, "w") as file:
        for split, count in rows.items():
            labels = rng.permutation(np.arange(count) % CLASSES)
            noise = rng.normal(0, 60, (count, pixels, pixels, 3)).astype(np.float32)
            file[f"{split}/inputs"] = (patterns[labels] + noise).clip(0, 255).astype(np.uint8)
            file[f"{split}/labels"] = labels.astype(np.int64)
        head = rng.normal(size=(CLASSES, width))
        file["head/weight"] = (head / np.linalg.norm(head, axis=1, keepdims=True)).astype(np.float32)
        file["head/weight"].attrs["logit_scale"] = 100.0
        file["class_names"] = np.array([f"class {c}" for c in range(CLASSES)], dtype=h5py.string_dtype())
        file.attrs.update(task=path.stem, modality="image", source="drawn", license="Apache-2.0")
        file.attrs["mean"], file.attrs["std"] = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true", help="a rehearsal on a host: seconds")
    options = parser.parse_args()
    (options.folder / "data").mkdir(parents=True)
    torch.manual_seed(1)
    small = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 3,
             "image_size": 56, "patch_size": 28, "projection_dim": 32} if options.small else {}
    shape = CLIPVisionConfig(**small)
    CLIPVisionModelWithProjection(shape).save_pretrained(options.folder / "model")
    n = 32 if options.small else 256
    for seed, name in enumerate(TASKS):
        rows = {"train": 2 * n, "validation": n, "test": n}
        write_task(options.folder / "data" / f"{name}.h5", seed, rows, shape.image_size, shape.projection_dim)
    sizes = {"steps": 10, "batch": 16, "count": 3, "ntk": 4, "threads": 1} if options.small else {
        "steps": 20, "batch": 128, "count": 7, "ntk": 16, "threads": 4}
    (options.folder / "large.toml").write_text(EXPERIMENT.format(points=n, **sizes))


if __name__ == "__main__":
    main()
