# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Models of pictures in plain PyTorch, as their config.json says.

Parameters and statistics have the names of their files: torchvision's, in hub_nets transformers', in
open_clip those of open_clip and timm.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F  # noqa: N812

from taugrid_analysis.recompute.hub_nets import ConvNext, Vit
from taugrid_analysis.recompute.net import Net
from taugrid_analysis.recompute.open_clip import OpenClip


class Layer(nn.Linear):
    """A linear map and an activation."""

    def __init__(self, before: int, width: int, gelu: bool) -> None:
        super().__init__(before, width)
        self.gelu = gelu

    def forward(self, x: Tensor) -> Tensor:
        h = super().forward(x)
        return F.gelu(h) if self.gelu else F.relu(h)


class Mlp(Net):
    """A picture's numbers, linear maps, an activation behind each but the classifier."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config.get("num_channels", 1) * config.get("image_size", 28) ** 2
        sizes = config.get("hidden_sizes", [100, 100])
        self.layers: list[Layer] = []
        for i, size in enumerate(sizes):
            self.layers.append(Layer(width, size, config.get("hidden_act", "relu") == "gelu"))
            self.add_module(str(3 * i), self.layers[-1])
            width = size
        if "num_classes" in config:
            self.classifier_name = str(3 * len(sizes))
            self.add_module(self.classifier_name, nn.Linear(width, config["num_classes"]))

    def stages(self) -> list[nn.Module]:
        return [*self.layers[1:]]

    def states(self, x: Tensor) -> list[Tensor]:
        return self.chain(self.layers[0](x.flatten(1)))


class Block(nn.Module):
    """He et al. (2016), figure 2: two convolutions beside a shortcut."""

    def __init__(self, before: int, width: int, stride: int, projects: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.stride, self.more = stride, width - before
        self.downsample = None
        if projects and (stride > 1 or before != width):
            self.downsample = nn.Sequential(
                nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        inside = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.downsample is not None:
            return F.relu(inside + self.downsample(x))
        kept = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return F.relu(inside + kept)


class ResNet(Net):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        layers, widths = config.get("layers", [2, 2, 2, 2]), config.get("widths", [64, 128, 256, 512])
        self.small = config.get("stem", "imagenet") == "cifar"
        size, stride = (3, 1) if self.small else (7, 2)
        self.conv1 = nn.Conv2d(config.get("num_channels", 3), widths[0], size, stride, size // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        projects, width = config.get("shortcut", "projection") == "projection", widths[0]
        self.groups = [f"layer{g + 1}" for g in range(len(layers))]
        for g, name in enumerate(self.groups):
            blocks = []
            for i in range(layers[g]):
                blocks.append(Block(width, widths[g], 2 if g > 0 and i == 0 else 1, projects))
                width = widths[g]
            self.add_module(name, nn.Sequential(*blocks))
        if "num_classes" in config:
            self.fc = nn.Linear(width, config["num_classes"])
            self.classifier_name = "fc"

    def stages(self) -> list[nn.Module]:
        return [block for name in self.groups for block in self.get_submodule(name).children()]

    def states(self, x: Tensor) -> list[Tensor]:
        h = F.relu(self.bn1(self.conv1(x)))
        return self.chain(h if self.small else F.max_pool2d(h, 3, 2, 1))

    def features(self, last: Tensor) -> Tensor:
        return last.mean((2, 3))


KINDS: dict[str, Callable[[dict[str, Any]], Net]] = {
    "convnext": ConvNext,
    "mlp": Mlp,
    "open_clip": OpenClip,
    "torchvision_resnet": ResNet,
    "vit": Vit,
}


def config_of(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config


def is_net(folder: Path) -> bool:
    return (folder / "config.json").is_file() and config_of(folder).get("model_type") in KINDS


def load(folder: Path, weights: bool = True) -> Net:
    """The folder's model, or without `weights` one of its config.json; counters of batches may be missing."""
    config = config_of(folder)
    model = KINDS[config["model_type"]](config)
    if not weights:
        return model
    lacking = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    wrong = [name for name in lacking.missing_keys if not name.endswith("num_batches_tracked")]
    wrong += [name for name in lacking.unexpected_keys if not model.passes_over(name)]
    if wrong:
        raise ValueError(f"other tensors than config.json's: {', '.join(wrong)}")
    return model


def statistics(model: nn.Module) -> dict[str, Tensor]:
    """Stored means and variances, in the order in which they are used."""
    return {name: v.detach().clone() for name, v in model.named_buffers() if v.is_floating_point()}


def _behind(model: Net, frozen: int) -> list[nn.Module]:
    """The stages from `frozen` on, or the whole model where none is frozen."""
    return list(model.stages()[frozen - 1 :]) if frozen > 0 else [model]


def statistics_of(
    model: nn.Module, p: dict[str, Tensor], batches: list[Tensor], frozen: int
) -> dict[str, Tensor]:
    """Means of the batches' own statistics at parameters p; those of stages before `frozen` stay."""
    again = copy.deepcopy(model)
    assert isinstance(again, Net)
    again.load_state_dict(p, strict=False)
    for module in (child for part in _behind(again, frozen) for child in part.modules()):
        if isinstance(module, nn.BatchNorm2d):
            module.train()
            module.reset_running_stats()
            module.momentum = None  # the mean of all batches
    with torch.no_grad():
        for batch in batches:
            again(batch)
    return statistics(again)


def by_the_batch(model: nn.Module, p: dict[str, Tensor], x: Tensor) -> Tensor:
    """The last state of x as training sees it: by the batch's own statistics."""
    again = copy.deepcopy(model).train()
    again.load_state_dict(p, strict=False)
    assert isinstance(again, Net)
    with torch.no_grad():
        return again.states(x)[-1]


def in_training(model: nn.Module, p: dict[str, Tensor], x: Tensor, frozen: int) -> Tensor:
    """The features of x with a graph: by the batch's own statistics from the stage `frozen` on."""
    again = copy.deepcopy(model).eval()
    assert isinstance(again, Net)
    for part in _behind(again, frozen):
        part.train()
    z: Tensor = functional_call(again, {name: v.clone() for name, v in p.items()}, (x, -1))
    return z


def random_theta(model: Net, seed: int) -> dict[str, Tensor]:
    """θ0 as the program draws it, each parameter in its order."""
    parameters = dict(model.named_parameters())
    generator = torch.Generator().manual_seed(seed)
    draw = _transformers_start if model.spread > 0 else _torchvision_start
    theta = draw({name: parameters[name].detach() for name in model.order()}, model, generator)
    return {name: theta[name] for name in parameters}


def _transformers_start(
    parameters: dict[str, Tensor], model: Net, generator: torch.Generator
) -> dict[str, Tensor]:
    """Normal numbers, cut far out; gains 1, biases 0; constants of the model."""
    theta = {}
    for name, p in parameters.items():
        values = torch.zeros(p.shape, dtype=torch.float32)
        if name in model.constants:
            values.fill_(model.constants[name])
        elif p.ndim == 1:
            values.fill_(float(name.endswith("weight")))
        elif not name.endswith("bias"):
            values.normal_(0, model.spread, generator=generator).clamp_(-2, 2)
        theta[name] = values
    return theta


def _torchvision_start(
    parameters: dict[str, Tensor], _model: Net, generator: torch.Generator
) -> dict[str, Tensor]:
    """Filters by their outputs, gains 1, linear maps even in ±1/√inputs."""
    theta, width = {}, 1
    for name, p in parameters.items():
        values = torch.zeros(p.shape, dtype=torch.float32)
        if p.ndim == 4:
            values.normal_(0, math.sqrt(2 / (p.numel() / p.shape[1])), generator=generator)
        elif p.ndim == 2:
            width = p.shape[1]
        if p.ndim == 2 or _is_linear(name, parameters):
            values.uniform_(-1 / math.sqrt(width), 1 / math.sqrt(width), generator=generator)
        elif p.ndim == 1 and name.endswith("weight"):
            values.fill_(1)
        theta[name] = values
    return theta


def _is_linear(bias: str, parameters: dict[str, Tensor]) -> bool:
    return bias.endswith("bias") and parameters[bias.removesuffix("bias") + "weight"].ndim == 2
