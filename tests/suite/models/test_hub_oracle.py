# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Vision Transformers and ConvNeXt against transformers and torch.func, in double precision but for transformers'
softmax, which is taken in float32: with the classifier that they bring, and with one of a task's own."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import relative
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.func import functional_call, grad, jacrev, jvp, vmap
from torch.nn.functional import cross_entropy
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    ConvNextModel,
    PreTrainedConfig,
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
)

PROBE = os.environ["MODEL_PROBE"]
WORDS = torch.tensor([3, 0, 4])  # of five classes


@dataclass(frozen=True)
class Kind:
    """An architecture: its classes without and with a classifier, how they are made, what the features are."""

    alone: type
    whole: type
    part: str  # the former's name in the latter
    config: Callable[..., PreTrainedConfig]
    shape: dict[str, Any]
    features: Callable[[Any], Tensor]
    loading: dict[str, Any]


KINDS = {
    "vit": Kind(ViTModel, ViTForImageClassification, "vit", ViTConfig,
                dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3, image_size=16,
                     patch_size=8, num_channels=2, attn_implementation="eager"),
                lambda out: out.last_hidden_state[:, 0], {"attn_implementation": "eager"}),
    "convnext": Kind(ConvNextModel, ConvNextForImageClassification, "convnext", ConvNextConfig,
                     dict(hidden_sizes=[6, 10, 24], depths=[1, 2, 1], num_stages=3, image_size=16, patch_size=2,
                          num_channels=2, layer_scale_init_value=0.5, drop_path_rate=0.3, layer_norm_eps=1e-5),
                     lambda out: out.pooler_output, {}),
    # Pictures of odd sides, whose last row and column the halving leaves out; and no layer scale.
    "convnext_of_odd_sides": Kind(ConvNextModel, ConvNextForImageClassification, "convnext", ConvNextConfig,
                                  dict(hidden_sizes=[8, 24], depths=[1, 1], num_stages=2, image_size=15, patch_size=3,
                                       num_channels=2, layer_scale_init_value=0.0), lambda out: out.pooler_output, {}),
}


class World:
    def __init__(self, name: str, with_head: bool, folder: Path) -> None:
        torch.manual_seed(3)
        self.kind, self.with_head, self.folder = KINDS[name], with_head, folder
        self.maker = self.kind.whole if with_head else self.kind.alone
        config = self.kind.config(**self.kind.shape, num_labels=5)
        model = self.maker(config)
        with torch.no_grad():  # away from the initial zeros and ones
            for p in model.parameters():
                p.add_((0.1 if p.ndim == 1 else 0.05) * torch.randn_like(p))
        model.save_pretrained(folder / "theirs")
        self.stored = load_file(folder / "theirs" / "model.safetensors")
        self.model = self.loaded("theirs")
        self.theta = {k: v.detach() for k, v in self.model.named_parameters() if not k.startswith("pooler")}
        side = config.image_size
        self.pixels = torch.randn(4, 2, side, side, dtype=torch.double)
        self.labels = torch.tensor([0, 1, 2, 1])
        self.head, self.bias = torch.randn(3, 24, dtype=torch.double), torch.randn(3, dtype=torch.double)

    def loaded(self, name: str) -> torch.nn.Module:
        more = {"add_pooling_layer": False} if self.maker is ViTModel else {}
        return self.maker.from_pretrained(self.folder / name, **self.kind.loading, **more).double().eval()

    def features(self, p: dict[str, Tensor], x: Tensor) -> Tensor:
        part = self.kind.part
        inner = {k.removeprefix(f"{part}."): v for k, v in p.items() if not k.startswith("classifier")}
        tower = getattr(self.model, part) if self.with_head else self.model
        return self.kind.features(functional_call(tower, inner, (), {"pixel_values": x}))

    def output(self, p: dict[str, Tensor], x: Tensor) -> Tensor:
        z = self.features(p, x)
        return z @ p["classifier.weight"][WORDS].T + p["classifier.bias"][WORDS] if self.with_head else z

    def logits(self, p: dict[str, Tensor], x: Tensor) -> Tensor:
        z = self.output(p, x)
        return z if self.with_head else z @ self.head.T + self.bias

    def names(self) -> dict[str, str]:
        """transformers' name of each parameter in memory: its name in the file, by equal numbers."""
        return {k: next(n for n, t in self.stored.items() if t.shape == v.shape and torch.equal(t.double(), v))
                for k, v in self.theta.items()}

    def measured(self, tau: dict[str, Tensor]) -> dict[str, Tensor]:
        names = self.names()
        readout = {"words": WORDS} if self.with_head else {"head": self.head, "bias": self.bias}
        inputs = {"pixels": self.pixels, "labels": self.labels, "scale": torch.ones(1, dtype=torch.double), **readout,
                  **{f"tau.{names[k]}": v for k, v in tau.items()}}
        save_file({k: v.contiguous() for k, v in inputs.items()}, self.folder / "in.safetensors")
        subprocess.run([PROBE, self.folder / "theirs", self.folder / "in.safetensors",
                        self.folder / "out.safetensors", self.folder / "ours"], check=True)
        return load_file(self.folder / "out.safetensors")


@pytest.mark.parametrize(("name", "with_head"), [("vit", True), ("vit", False), ("convnext", True), ("convnext", False),
                                                 ("convnext_of_odd_sides", False)])
def test_every_quantity_agrees_and_the_folder_comes_back(name: str, with_head: bool, tmp_path: Path) -> None:
    world = World(name, with_head, tmp_path)
    tau = {k: 0.05 * torch.randn_like(v) for k, v in world.theta.items()}
    names, out, x, theta = world.names(), world.measured(tau), world.pixels, world.theta

    def flat(of: dict[str, Tensor], key: str = "") -> Tensor:
        return torch.cat([of[key + names[k] if key else k].flatten() for k in theta])

    def loss(p: dict[str, Tensor]) -> Tensor:
        return cross_entropy(world.logits(p, x), world.labels)

    assert relative(out["encoded"], world.features(theta, x)) < 1e-6
    assert relative(out["jvp"], jvp(lambda p: world.output(p, x), (theta,), (tau,))[1]) < 1e-6
    assert relative(flat(out, "gradient."), flat(grad(loss)(theta))) < 1e-6
    assert relative(flat(out, "hvp."), flat(jvp(grad(loss), (theta,), (tau,))[1])) < 1e-6
    each = vmap(jacrev(lambda p, image: world.logits(p, image[None])[0]), (None, 0))(theta, x)
    rows = torch.cat([v.flatten(2) for v in each.values()], 2)  # [n, classes, P]
    assert relative(out["per_sample_norm"], rows.sum(1).norm(dim=1)) < 1e-6
    assert relative(flat(out, "per_sample_sum."), rows.sum((0, 1))) < 1e-6
    for c in range(2):
        assert relative(out["gram"][c], rows[:, c] @ rows[:, c].T) < 1e-6
    after = load_file(tmp_path / "ours" / "model.safetensors")
    kept = {k: v for k, v in world.stored.items() if not k.startswith("pooler")}
    assert after.keys() == kept.keys()
    assert all(v.numpy().tobytes() == after[k].numpy().tobytes() for k, v in kept.items())
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("theirs", "ours")]
    assert configs[0] == configs[1]
    again = {k: v for k, v in world.loaded("ours").named_parameters() if k in theta}
    assert all(torch.equal(again[k], v) for k, v in theta.items())


@pytest.mark.parametrize(("name", "change", "named"), [
    ("vit", {"qkv_bias": False}, "qkv_bias is false"),
    ("vit", {"hidden_act": "relu"}, "hidden_act is 'relu'"),
    ("vit", {"architectures": ["ViTForMaskedImageModeling"]}, "architectures names ViTForMaskedImageModeling"),
    ("vit", {"id2label": {}}, "id2label"),
    ("vit", {"id2label": {"0": "a"}}, "classifier.weight has shape [5, 24]; expected [1, 24]"),
    ("vit", {"id2label": None, "num_labels": 3}, "classifier.weight has shape [5, 24]; expected [3, 24]"),
    ("vit", {"patch_size": 5}, "image_size is not a multiple of patch_size"),
    ("convnext", {"hidden_act": "relu"}, "hidden_act is 'relu'; expected gelu"),
    ("convnext", {"architectures": ["ConvNextBackbone"]}, "expected ConvNextModel or ConvNextForImageClassification"),
    ("convnext", {"depths": [1, 2]}, "hidden_sizes has 3 numbers and depths 2"),
    ("convnext", {"num_stages": 2}, "num_stages is not the number of depths, 3"),
    ("convnext", {"image_size": 7}, "image_size is 7; expected at least 8"),
    ("convnext", {"layer_scale_init_value": 0}, "layer_scale_parameter and 3 more: no ConvNext"),
])
def test_what_is_no_such_model_is_refused_in_one_line(tmp_path: Path, name: str, change: dict, named: str) -> None:
    world = World(name, True, tmp_path)
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    save_file({"pixels": world.pixels}, tmp_path / "in.safetensors")
    done = subprocess.run([PROBE, tmp_path / "theirs", tmp_path / "in.safetensors", tmp_path / "out.safetensors"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert named in done.stderr, done.stderr


def test_classes_may_be_counted_and_not_named(tmp_path: Path) -> None:
    world = World("vit", True, tmp_path)
    tau = {k: torch.zeros_like(v) for k, v in world.theta.items()}
    named = world.measured(tau)["logits"]
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"id2label": None, "label2id": None, "num_labels": 5}))
    assert torch.equal(world.measured(tau)["logits"], named)
