# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Small models beside CLIP's tower, each with tasks that it can learn in a few steps: the text encoder of tests/nets
again in plain PyTorch, a residual network, a multilayer perceptron, a Vision Transformer, a ConvNeXt."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import shared
import torch
import world as worlds
from launch import measure
from safetensors.torch import save_file
from taugrid_analysis.recompute.hub_nets import ConvNext, Vit
from taugrid_analysis.recompute.nets import Mlp, ResNet
from taugrid_analysis.recompute.open_clip import OpenClip
from torch import Tensor, nn
from torch.nn import functional as F
from world import EXPERIMENT, ROWS, write_task

TEXT = {
    "model_type": "tiny_text",
    "vocab_size": 40,
    "max_tokens": 12,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 2,
    "num_hidden_layers": 3,
}
RESNET = {"model_type": "torchvision_resnet", "image_size": 16, "num_channels": 3, "layers": [1, 1], "widths": [8, 8],
          "stem": "cifar", "num_classes": 6}
MLP = {"model_type": "mlp", "image_size": 16, "num_channels": 3, "hidden_sizes": [12, 10, 8], "num_classes": 6}
LABELS = {"id2label": {str(c): f"class {c}" for c in range(6)}, "image_size": 16, "num_channels": 3}
VIT = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "patch_size": 8, "hidden_size": 8,
       "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2} | LABELS
CONVNEXT = {"model_type": "convnext", "architectures": ["ConvNextForImageClassification"], "patch_size": 4,
            "num_stages": 2, "depths": [1, 2], "hidden_sizes": [6, 8], "layer_scale_init_value": 0.3} | LABELS
OPEN_CLIP = {"model_type": "open_clip", "embed_dim": 8,
             "vision_cfg": {"depths": [1, 2], "dims": [6, 10], "ls_init_value": 0.3, "image_size": 16}}
# Closed vocabulary: classifiers that the run trains, instead of those that the data have.
TRAINED_HEADS = "\n[heads]\nsteps = 40\nbatch = 16\nwarmup_steps = 4\nlearning_rate = 0.05\n"
HEADS = {"moods": "cosine", "topics": "affine", "intents": "words"}  # a task of each way to read logits
PICTURE_HEADS = {"stripes": "cosine", "blobs": "affine", "corners": "words"}
CLASSES = {"moods": 3, "topics": 4, "intents": 5}


class TinyText(nn.Module):
    def __init__(self, config: dict[str, int]) -> None:
        super().__init__()
        width, mlp, self.heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
        self.embeddings = nn.ModuleDict(
            {
                "word": nn.Embedding(config["vocab_size"], width),
                "position": nn.Embedding(config["max_tokens"], width),
                "norm": nn.LayerNorm(width),
            }
        )
        sizes = {"qkv": (width, 3 * width), "out": (width, width), "fc1": (width, mlp), "fc2": (mlp, width)}
        self.layer = nn.ModuleList(
            nn.ModuleDict(
                {
                    **{name: nn.Linear(*size) for name, size in sizes.items()},
                    "norm1": nn.LayerNorm(width),
                    "norm2": nn.LayerNorm(width),
                }
            )
            for _ in range(config["num_hidden_layers"])
        )

    def attended(self, layer: nn.ModuleDict, h: Tensor, unused: Tensor) -> Tensor:
        n, tokens, width = h.shape
        q, k, v = layer["qkv"](h).view(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(2, 3)) * (width // self.heads) ** -0.5
        weights = scores.masked_fill(unused[:, None, None], -torch.inf).softmax(3)
        return layer["out"]((weights @ v).transpose(1, 2).flatten(2))

    def states(self, ids: Tensor, lengths: Tensor) -> list[Tensor]:
        """The output of the embedding and of every layer, [n, tokens, width] each."""
        places = torch.arange(ids.shape[1])
        unused = places >= lengths[:, None]
        h = self.embeddings["norm"](self.embeddings["word"](ids) + self.embeddings["position"](places))
        outputs = [h]
        for layer in self.layer:
            h = layer["norm1"](h + self.attended(layer, h, unused))
            h = layer["norm2"](h + layer["fc2"](F.gelu(layer["fc1"](h))))
            outputs.append(h)
        return outputs

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The mean over the tokens in use, [n, width]."""
        used = (torch.arange(ids.shape[1]) < lengths[:, None]).unsqueeze(2)
        return (self.states(ids, lengths)[-1] * used).sum(1) / lengths[:, None]


TEXTS = (list(CLASSES), TinyText, TEXT)  # of a NetWorld


@dataclass(frozen=True)
class NetWorld:
    """A model, its tasks, an experiment."""

    folder: Path
    tasks: list[str]
    make: Callable[[dict[str, Any]], nn.Module]
    config: dict[str, Any]

    @property
    def experiment(self) -> Path:
        return self.folder / "tiny.toml"

    @property
    def weights(self) -> Path:
        return self.folder / "model" / "model.safetensors"

    def task(self, name: str) -> Path:
        return self.folder / "data" / f"{name}.h5"


def write_text_task(
    path: Path,
    name: str,
    rng: np.random.Generator,
    config: dict[str, int] = TEXT,
    pad: int = 0,
    width: int | None = None,
) -> None:
    """A class prefers a few words; texts have any length. `pad` fills the places behind a text, up to `width`."""
    classes, width = CLASSES[name], width or config["max_tokens"]
    with h5py.File(path, "w") as file:
        preferred = rng.integers(10, config["vocab_size"], (classes, 4))
        for split, rows in ROWS.items():
            labels = rng.permutation(np.arange(rows) % classes)
            lengths = rng.integers(3, config["max_tokens"] - 3, rows)
            words = rng.integers(10, config["vocab_size"], (rows, config["max_tokens"]))
            chosen = rng.random(words.shape) < 0.7
            words[chosen] = np.take_along_axis(preferred[labels], rng.integers(0, 4, words.shape), 1)[chosen]
            ids = np.full((rows, width), pad)
            ids[:, : words.shape[1]] = words[:, :width]
            ids[np.arange(width) >= lengths[:, None]] = pad
            file[f"{split}/inputs"], file[f"{split}/lengths"] = ids.astype(np.int32), lengths.astype(np.int32)
            file[f"{split}/labels"] = labels.astype(np.int64)
        kind = HEADS[name]
        head = file.create_group("head")
        head.attrs["kind"] = kind
        rows_of = rng.normal(size=(classes, config["hidden_size"]))
        if kind == "cosine":
            rows_of /= np.linalg.norm(rows_of, axis=1, keepdims=True)
        if kind == "words":
            head["tokens"] = rng.permutation(np.arange(10, config["vocab_size"]))[:classes].astype(np.int64)
        else:
            head["weight"] = rows_of.astype(np.float32)
        if kind == "cosine":
            head["weight"].attrs["logit_scale"] = 9.0
        if kind == "affine":
            head["bias"] = rng.normal(size=classes).astype(np.float32)
        file["class_names"] = np.array([f"{name} {c}" for c in range(classes)], dtype=h5py.string_dtype())
        file.attrs.update(task=name, modality="text", source="drawn by a test", license="Apache-2.0")


def _write_model(world: NetWorld, architecture: str) -> None:
    torch.manual_seed(11)
    model = world.make(world.config)
    with torch.no_grad():  # Away from the initial zeros and ones.
        for name, tensor in model.state_dict().items():
            if name.endswith("running_var"):
                tensor.mul_(0.5 + torch.rand_like(tensor))
            elif tensor.is_floating_point():
                tensor.add_((0.1 if tensor.ndim == 1 else 0.05) * torch.randn_like(tensor))
    world.weights.parent.mkdir(parents=True)
    save_file(model.state_dict(), world.weights, metadata={"format": "pt"})
    (world.weights.parent / "config.json").write_text(
        json.dumps({"architectures": [architecture]} | world.config, indent=2)
    )


def _experiment(tasks: list[str]) -> str:
    plain = re.sub(r"chunk = \d+ #.*\n", "", EXPERIMENT)  # what chunks are of is not the model's
    text = plain + "\n[pair_addition]\nalpha = [0.0, 0.5, 1.0]\n\n[cost]\nsteps = 3\n"
    for old, new in {
        '["stripes", "blobs", "corners"]': json.dumps(tasks),
        '["standard", "linear"]': '["standard", "linear", "tau_jp"]\npenalty_weight = 0.01\npenalty_batch = 5',
    }.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def without(world: NetWorld, sections: tuple[str, ...], more: str = "") -> Path:
    """The world's experiment without these sections, and with `more`, in a file beside it."""
    path = world.folder / f"without_{'_'.join(sections)}.toml"
    path.write_text(worlds.without(world.experiment.read_text(), *sections) + more)
    return path


def text_world(folder: Path, config: dict[str, int] = TEXT, **writing: int) -> NetWorld:
    """`writing`: how write_text_task() fills the places behind a text."""
    world = NetWorld(folder, *TEXTS[:-1], config)
    (folder / "data").mkdir(parents=True)
    rng = np.random.default_rng(4)
    for name in world.tasks:
        write_text_task(world.task(name), name, rng, config, **writing)
    _write_model(world, "TinyText")
    world.experiment.write_text(_experiment(world.tasks))
    return world


def _picture_world(folder: Path, make: Callable[[dict[str, Any]], nn.Module], config: dict[str, Any]) -> NetWorld:
    world = NetWorld(folder, list(PICTURE_HEADS), make, config)
    (folder / "data").mkdir(parents=True)
    rng = np.random.default_rng(3)
    for name, kind in PICTURE_HEADS.items():
        write_task(world.task(name), name, rng, features=8)
        with h5py.File(world.task(name), "r+") as file:
            head, classes = file["head"], len(file["head/weight"])
            head.attrs["kind"] = kind
            if kind == "affine":
                head["bias"] = rng.normal(size=classes).astype(np.float32)
            if kind == "words":  # classes of the model's own classifier
                del head["weight"]
                head["tokens"] = rng.permutation(6)[:classes].astype(np.int64)
    _write_model(world, make.__name__)
    world.experiment.write_text(_experiment(world.tasks))
    return world


def resnet_world(folder: Path) -> NetWorld:
    return _picture_world(folder, ResNet, RESNET)


def vit_world(folder: Path) -> NetWorld:
    return _picture_world(folder, Vit, VIT)


def closed_vocabulary_world(folder: Path) -> NetWorld:
    """The same with a control, and classifiers of its own for each task."""
    world = vit_world(folder)
    write_task(world.task("plaids"), "plaids", np.random.default_rng(8), features=5)  # of another model's width
    text = world.experiment.read_text().replace('"corners"]\n', '"corners"]\ncontrol = "plaids"\n')
    world.experiment.write_text(text + TRAINED_HEADS + "\n[negation]\nalpha = [0.0, 1.0]\nwide_alpha = [0.5, 2.0]\n")
    return world


def convnext_world(folder: Path) -> NetWorld:
    return _picture_world(folder, ConvNext, CONVNEXT)


def open_clip_world(folder: Path) -> NetWorld:
    """The same with a projection into the space of texts, and so without a classifier of its own."""
    world = _picture_world(folder, OpenClip, OPEN_CLIP)
    write_task(world.task("corners"), "corners", np.random.default_rng(5), features=8)
    return world


def mlp_world(folder: Path) -> NetWorld:
    return _picture_world(folder, Mlp, MLP)


WORLDS = {"text": text_world, "resnet": resnet_world, "mlp": mlp_world, "convnext": convnext_world,
          "closed": closed_vocabulary_world}
PICTURES = list(PICTURE_HEADS)
MADE_OF = {"text": TEXTS, "resnet": (PICTURES, ResNet, RESNET), "mlp": (PICTURES, Mlp, MLP),
           "convnext": (PICTURES, ConvNext, CONVNEXT), "closed": (PICTURES, Vit, VIT)}


def finished(base: Path, name: str) -> tuple[NetWorld, Path]:
    """A world of this name and the folder of its finished run on 2 ranks, which no test changes."""

    def make(folder: Path) -> None:
        measure(WORLDS[name](folder / "world").experiment, folder / "run")

    folder = shared.once(base, f"net-{name}", make)
    return NetWorld(folder / "world", *MADE_OF[name]), folder / "run"
