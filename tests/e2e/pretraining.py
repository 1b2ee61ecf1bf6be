# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A pre-training on a few pairs of pictures and captions, in a copy of the world."""

import shutil
from pathlib import Path

import h5py
import numpy as np
from world import FEATURES, World

ROWS, CAPTIONS, WARMUP, RATE, SCALE = 24, 6, 3, 1e-3, 20.0
PRETRAIN = f"""\
[run]
name = "pretrain"
seed = 2

[model]
path = "model"

[data]
folder = "data"
tasks = ["stripes", "blobs"]
evaluation_points = 20

[pretrain]
pairs = "pairs.h5"
class_pictures = 100
steps = 12
batch = {ROWS}
warmup_steps = {WARMUP}
shift = 0
learning_rate = {RATE}
weight_decay = 0.1
scale_start = {SCALE}
"""


def experiment(world: World, folder: Path) -> Path:
    """Its file; the copy lies in the folder."""
    copy = World(Path(shutil.copytree(world.folder, folder / "world")))
    rng = np.random.default_rng(7)
    text = rng.normal(size=(CAPTIONS, FEATURES)).astype(np.float32)
    with h5py.File(copy.folder / "pairs.h5", "w") as file:
        file["images"] = rng.integers(0, 256, (ROWS, 16, 16, 3), dtype=np.uint8)
        file["captions"] = np.array([f"caption {i}" for i in range(CAPTIONS)], dtype=h5py.string_dtype())
        file["caption"] = rng.integers(0, CAPTIONS, ROWS, dtype=np.int32)
        file["text_embedding"] = text / np.linalg.norm(text, axis=1, keepdims=True)
        file["is_class_picture"] = np.zeros(ROWS, dtype=np.int8)
        file["class_picture_rank"] = np.full(ROWS, -1, dtype=np.int32)
        file.attrs.update(mean=[0.4, 0.45, 0.5], std=[0.25, 0.26, 0.27])
    path = copy.folder / "pretrain.toml"
    path.write_text(PRETRAIN)
    return path
