# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A world small enough to recompute: three tasks of little pictures, a tiny CLIP image tower, an experiment."""

import json
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import h5py
import numpy as np
from safetensors.numpy import load_file, save_file

CLASSES = {"stripes": 3, "blobs": 4, "corners": 5, "plaids": 4}
TASKS, CONTROL = list(CLASSES)[:3], "plaids"
T = range(len(TASKS))
PAIRS = list(combinations(T, 2))
REGIMES = ["standard", "linear"]  # those of the experiment
ROWS = {"train": 60, "validation": 20, "test": 30}
FEATURES = 12

EXPERIMENT = """\
[run]
name = "tiny"
seed = 5
threads_per_rank = 1

[model]
path = "model"

[data]
folder = "data"
tasks = ["stripes", "blobs", "corners"]
evaluation_points = 24 # more than the validation splits hold
evaluation_batch = 16

[finetune]
regimes = ["standard", "linear"]
steps = 25
batch = 16
warmup_steps = 3
learning_rate = 1e-3
weight_decay = 0.1

[finetune.linear]
learning_rate = 2e-3

[similarity]
loss_gap_alpha = 0.5

[disentanglement]
alpha = [-1.5, 0.0, 0.5, 1.0, 2.0]
points = 16
linear_points = 24

[linearity]
alpha = [0.25, 0.5]
batch = 10

[averages]

[layer_averages]
batch = 10

[stitching]
lambda = [0.4, 1.0]
points = 20

[barrier]
alpha = [0.25, 0.5]
points = 20
chunk = 11 # two a rank, one where two ranks share them

[smoothness]
points = 24
chunk = 13 # as above
max_basis = 12
tolerance = 1e-3

[ntk]
points = 6
logits = 4

[addition]
alpha = { from = 0.0, to = 1.0, count = 6 }
"""


# All that the tangent-space papers measure, over the same tasks.
PAPERS = EXPERIMENT + """
[finetune.tau_jp_continue]
steps = 7
trace_every = 3

[pair_addition]
alpha = [0.0, 0.5, 0.8, 1.0]

[negation]
alpha = [0.0, 0.5, 1.0]
wide_alpha = [0.5, 2.0, 3.0]
control_threshold = 0.9

[cost]
steps = 3
"""
for _old, _new in {
    "tiny": "papers",
    '"corners"]': '"corners"]\ncontrol = "plaids"\ncontrol_points = 28 # of 20 and 30',
    '["standard", "linear"]': """[
  "standard", "linear", "posthoc", "attention", "attention_posthoc", "tau_jp", "tau_jp_strict", "tau_jp_incremental",
  "tau_jp_continue", "multitask", "multitask_linear",
]
penalty_weight = 0.05
penalty_batch = 5""",
    "[finetune.linear]\nlearning_rate = 2e-3\n": "",
    "[-1.5, 0.0, 0.5, 1.0, 2.0]": "[0.0, 0.5, 1.0]",
    "logits = 4": 'logits = 2\ninit = ["pretrained", "random"]',
}.items():
    assert PAPERS.count(_old) == 1, _old
    PAPERS = PAPERS.replace(_old, _new)


# All regimes of the papers, of which nothing is measured but accuracies.
_CONTINUED = "[finetune.tau_jp_continue]\n"
TRAINING = PAPERS.split("[similarity]")[0] + _CONTINUED + PAPERS.split(_CONTINUED)[1].split("[pair_addition]")[0]


def without(text: str, *sections: str) -> str:
    """An experiment that does not measure these."""
    return "\n[".join(part for part in text.split("\n[") if part.split("]")[0] not in sections)


@dataclass(frozen=True)
class World:
    folder: Path

    @property
    def experiment(self) -> Path:
        return self.folder / "tiny.toml"

    @property
    def papers(self) -> Path:
        return self.folder / "papers.toml"

    @property
    def training(self) -> Path:
        return self.folder / "training.toml"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def weights(self) -> Path:
        return self.model / "model.safetensors"

    def task(self, name: str) -> Path:
        return self.folder / "data" / f"{name}.h5"

    def elsewhere(self, path: Path, text: str) -> Path:
        """An experiment file outside of this world, which stays as it is."""
        path.write_text(text.replace('"model"', f'"{self.model}"').replace('"data"', f'"{self.folder / "data"}"'))
        return path


def write_task(path: Path, name: str, rng: np.random.Generator, features: int = FEATURES) -> None:
    """A class is a coarse pattern; its pictures are that pattern, dimmed, shifted and with noise."""
    classes = CLASSES[name]
    patterns = np.kron(rng.uniform(0, 255, (classes, 4, 4, 3)), np.ones((1, 4, 4, 1)))
    with h5py.File(path, "w") as file:
        for split, rows in ROWS.items():
            labels = rng.permutation(np.arange(rows) % classes)
            pictures = patterns[labels] * rng.uniform(0.5, 1, (rows, 1, 1, 1)) + rng.normal(0, 30, (rows, 16, 16, 3))
            pictures = np.stack([np.roll(x, rng.integers(0, 3), axis=1) for x in pictures])
            file[f"{split}/inputs"] = pictures.clip(0, 255).astype(np.uint8)
            file[f"{split}/labels"] = labels.astype(np.int64)
        head = rng.normal(size=(classes, features))
        head /= np.linalg.norm(head, axis=1, keepdims=True)
        file["head/weight"] = head.astype(np.float32)
        file["head/weight"].attrs["logit_scale"] = 8.0 + classes
        file["class_names"] = np.array([f"{name} {c}" for c in range(classes)], dtype=h5py.string_dtype())
        file.attrs.update(task=name, modality="image", source="drawn by a test", license="Apache-2.0")
        file.attrs["mean"] = [0.4, 0.45, 0.5]
        file.attrs["std"] = [0.25, 0.26, 0.27]


def misaligned(path: Path) -> None:
    """A header one byte longer, as any writer may leave it: no number stands where its type asks for."""
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    path.write_bytes((length + 1).to_bytes(8, "little") + whole[8 : 8 + length] + b" " + whole[8 + length :])


def make(folder: Path) -> World:
    # Here, since both take seconds to load, and most tests find the world made.
    import torch
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    world = World(folder)
    (folder / "data").mkdir(parents=True)
    rng = np.random.default_rng(3)
    for name in CLASSES:
        write_task(world.task(name), name, rng)
    torch.manual_seed(11)
    shape = CLIPVisionConfig(hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=3,
                             image_size=16, patch_size=8, projection_dim=FEATURES)
    model = CLIPVisionModelWithProjection(shape)
    with torch.no_grad():  # Away from the initial zeros and ones, and from a nearly linear network.
        for parameter in model.parameters():
            parameter.add_((0.1 if parameter.ndim == 1 else 0.08) * torch.randn_like(parameter))
    model.save_pretrained(world.model)
    world.experiment.write_text(EXPERIMENT)
    world.papers.write_text(PAPERS)
    world.training.write_text(TRAINING)
    return world


def in_parts(folder: Path) -> list[Path]:
    """Cuts a model's file into two parts with an index, as Hugging Face writes large models."""
    tensors = load_file(folder / "model.safetensors")
    names, places = sorted(tensors), {}
    for number, some in enumerate((names[::2], names[1::2]), 1):
        part = f"model-0000{number}-of-00002.safetensors"
        save_file({name: tensors[name] for name in some}, folder / part)
        places |= dict.fromkeys(some, part)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "model.safetensors").unlink()
    return sorted(folder.glob("model-*"))
