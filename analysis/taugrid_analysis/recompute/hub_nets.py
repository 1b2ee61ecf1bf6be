# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Vision Transformers and ConvNeXt in plain PyTorch, cut into stages, with the names of transformers' files.

transformers' own classes have other names in memory, and take a softmax in single precision.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from taugrid_analysis.recompute.net import Net


class _Hub(Net):
    """NAMEModel, or NAMEForImageClassification, which has it as a part and a classifier behind it."""

    def __init__(self, config: dict[str, Any], part: str, width: int) -> None:
        super().__init__()
        self.spread, self.part = float(config.get("initializer_range", 0.02)), ""
        if (config.get("architectures") or [""])[0].endswith("ForImageClassification"):
            self.part, self.classifier_name = part, "classifier"
            self.add_module(part, nn.Module())
            classes = len(config.get("id2label") or range(config.get("num_labels") or 2))
            self.classifier = nn.Linear(width, classes)

    @property
    def tower(self) -> Any:
        """The encoder."""
        return self.get_submodule(self.part) if self.part else self


class _Embeddings(nn.Module):
    def __init__(self, width: int, channels: int, patch: int, tokens: int) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.position_embeddings = nn.Parameter(torch.zeros(1, tokens, width))
        self.patch_embeddings = nn.ModuleDict({"projection": nn.Conv2d(channels, width, patch, patch)})

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patch_embeddings["projection"](x).flatten(2).transpose(1, 2)
        tokens: Tensor = torch.cat([self.cls_token.expand(len(x), -1, -1), patches], 1)
        return tokens + self.position_embeddings


class _VitLayer(nn.Module):
    def __init__(self, width: int, mlp: int, heads: int, eps: float, quick: bool) -> None:
        super().__init__()
        self.heads, self.quick = heads, quick
        self.layernorm_before = nn.LayerNorm(width, eps)
        parts = {name: nn.Linear(width, width) for name in ("query", "key", "value")}
        output = nn.ModuleDict({"dense": nn.Linear(width, width)})
        self.attention = nn.ModuleDict({"attention": nn.ModuleDict(parts), "output": output})
        self.layernorm_after = nn.LayerNorm(width, eps)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, mlp)})
        self.output = nn.ModuleDict({"dense": nn.Linear(mlp, width)})

    def attended(self, h: Tensor) -> Tensor:
        n, tokens, width = h.shape
        q, k, v = (
            part(h).view(n, tokens, self.heads, -1).transpose(1, 2)
            for part in self.attention.get_submodule("attention").children()
        )
        weights = (q @ k.transpose(2, 3) / (width // self.heads) ** 0.5).softmax(3)
        return (weights @ v).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention.get_submodule("output.dense")(self.attended(self.layernorm_before(x)))
        h = self.intermediate["dense"](self.layernorm_after(x))
        h = h * torch.sigmoid(1.702 * h) if self.quick else F.gelu(h)
        output: Tensor = x + self.output["dense"](h)
        return output


class Vit(_Hub):
    def __init__(self, config: dict[str, Any]) -> None:
        width, patch = config.get("hidden_size", 768), config.get("patch_size", 16)
        super().__init__(config, "vit", width)
        tokens = (config.get("image_size", 224) // patch) ** 2 + 1
        eps, quick = config.get("layer_norm_eps", 1e-12), config.get("hidden_act", "gelu") == "quick_gelu"
        mlp, heads = config.get("intermediate_size", 3072), config.get("num_attention_heads", 12)
        self.tower.embeddings = _Embeddings(width, config.get("num_channels", 3), patch, tokens)
        layers = [
            _VitLayer(width, mlp, heads, eps, quick) for _ in range(config.get("num_hidden_layers", 12))
        ]
        self.tower.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})
        self.tower.layernorm = nn.LayerNorm(width, eps)

    def passes_over(self, name: str) -> bool:
        return "pooler." in name or name.endswith("embeddings.mask_token")

    def order(self) -> list[str]:
        """Positions behind patches; of a layer the weights of query, key and value before their biases."""
        names = []
        for name in super().order():
            stem = name.removesuffix("query.weight")
            if stem != name:
                three = ("query", "key", "value")
                names += [f"{stem}{part}.{kind}" for kind in ("weight", "bias") for part in three]
            elif ".attention.attention." not in name and not name.endswith("position_embeddings"):
                names.append(name)
                if name.endswith("projection.bias"):
                    stem = name.removesuffix("patch_embeddings.projection.bias")
                    names.append(f"{stem}position_embeddings")
        return names

    def states(self, x: Tensor) -> list[Tensor]:
        return self.chain(self.tower.embeddings(x))

    def stages(self) -> list[nn.Module]:
        return list(self.tower.encoder["layer"])

    def features(self, last: Tensor) -> Tensor:
        features: Tensor = self.tower.layernorm(last[:, 0])
        return features


class _ConvNextLayer(nn.Module):
    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.layernorm = nn.LayerNorm(width, 1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.layer_scale_parameter = nn.Parameter(torch.full((width,), scale)) if scale > 0 else None

    def forward(self, x: Tensor) -> Tensor:
        h = self.layernorm(self.dwconv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
        h = self.pwconv2(F.gelu(self.pwconv1(h)))
        output: Tensor = x + (h if self.layer_scale_parameter is None else self.layer_scale_parameter * h)
        return output


class _Halved(nn.Module):
    """A group's first block behind the halving. Its parts belong to the group, which names them."""

    def __init__(self, group: nn.Module) -> None:
        super().__init__()
        self.parts = [*group.get_submodule("downsampling_layer").children(), group.get_submodule("layers.0")]

    def forward(self, x: Tensor) -> Tensor:
        norm, halve, block = self.parts
        output: Tensor = block(halve(norm(x).permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
        return output


class ConvNext(_Hub):
    """States are [n, h, w, channels]."""

    def __init__(self, config: dict[str, Any]) -> None:
        widths = config.get("hidden_sizes", [96, 192, 384, 768])
        super().__init__(config, "convnext", widths[-1])
        patch, scale = config.get("patch_size", 4), float(config.get("layer_scale_init_value", 1e-6))
        convolution = nn.Conv2d(config.get("num_channels", 3), widths[0], patch, patch)
        self.tower.embeddings = nn.ModuleDict(
            {"patch_embeddings": convolution, "layernorm": nn.LayerNorm(widths[0], 1e-6)}
        )
        groups, before = nn.ModuleList(), widths[0]
        for g, (depth, width) in enumerate(zip(config.get("depths", [3, 3, 9, 3]), widths, strict=True)):
            group = nn.Module()
            if g > 0:
                parts = [nn.LayerNorm(before, 1e-6), nn.Conv2d(before, width, 2, 2)]
                group.add_module("downsampling_layer", nn.ModuleList(parts))
            layers = [_ConvNextLayer(width, scale) for _ in range(depth)]
            group.add_module("layers", nn.ModuleList(layers))
            groups.append(group)
            before = width
        self.tower.encoder = nn.ModuleDict({"stages": groups})
        self.tower.layernorm = nn.LayerNorm(before, config.get("layer_norm_eps", 1e-12))
        self.constants = {name: scale for name in self.order() if name.endswith(".layer_scale_parameter")}

    def order(self) -> list[str]:
        """A block's scale stands last."""
        names, every = [], super().order()
        for name in every:
            if not name.endswith(".layer_scale_parameter"):
                names.append(name)
            scale = name.removesuffix("pwconv2.bias") + "layer_scale_parameter"
            if name.endswith("pwconv2.bias") and scale in every:
                names.append(scale)
        return names

    def states(self, x: Tensor) -> list[Tensor]:
        parts = self.tower.embeddings
        return self.chain(parts["layernorm"](parts["patch_embeddings"](x).permute(0, 2, 3, 1)))

    def stages(self) -> list[nn.Module]:
        stages: list[nn.Module] = []
        for g, group in enumerate(self.tower.encoder["stages"]):
            layers = list(group.get_submodule("layers").children())
            stages += [_Halved(group), *layers[1:]] if g > 0 else layers
        return stages

    def features(self, last: Tensor) -> Tensor:
        features: Tensor = self.tower.layernorm(last.mean((1, 2)))
        return features
