# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The image tower of open_clip's CLIPs whose trunk is timm's ConvNeXt, in plain PyTorch with their names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from taugrid_analysis.recompute.net import Net

SIZES = {  # timm's: depths, dims
    "convnext_tiny": ([3, 3, 9, 3], [96, 192, 384, 768]),
    "convnext_small": ([3, 3, 27, 3], [96, 192, 384, 768]),
    "convnext_base": ([3, 3, 27, 3], [128, 256, 512, 1024]),
    "convnext_large": ([3, 3, 27, 3], [192, 384, 768, 1536]),
    "convnext_xlarge": ([3, 3, 27, 3], [256, 512, 1024, 2048]),
    "convnext_xxlarge": ([3, 4, 30, 3], [384, 768, 1536, 3072]),
}
OTHER_TOWER = (
    "transformer.",
    "text.",
    "ln_final.",
    "token_embedding.",
    "positional_embedding",
    "text_projection",
)


class _Block(nn.Module):
    """Takes and gives [n, h, w, channels]."""

    def __init__(self, width: int, eps: float, scale: float) -> None:
        super().__init__()
        self.conv_dw = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})
        self.gamma = nn.Parameter(torch.full((width,), scale))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.conv_dw(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
        output: Tensor = x + self.gamma * self.mlp["fc2"](F.gelu(self.mlp["fc1"](h)))
        return output


class _Halved(nn.Module):
    """A group's first block behind the halving. Its parts belong to the group, which names them."""

    def __init__(self, group: nn.Module) -> None:
        super().__init__()
        self.parts = [*group.get_submodule("downsample").children(), group.get_submodule("blocks.0")]

    def forward(self, x: Tensor) -> Tensor:
        norm, halve, block = self.parts
        output: Tensor = block(halve(norm(x).permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
        return output


class OpenClip(Net):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        vision, self.spread = config["vision_cfg"], 0.02
        name = vision.get("timm_model_name", "")
        depths, dims = SIZES.get(name, ([], []))
        depths, dims = vision.get("depths", depths), vision.get("dims", dims)
        eps = vision.get("norm_eps", 1e-5 if name == "convnext_xxlarge" else 1e-6)
        scale, patch = vision.get("ls_init_value", 1e-6), vision.get("patch_size", 4)
        stem = [nn.Conv2d(vision.get("in_chans", 3), dims[0], patch, patch), nn.LayerNorm(dims[0], eps)]
        groups, before = nn.ModuleList(), dims[0]
        for g, (depth, width) in enumerate(zip(depths, dims, strict=True)):
            group = nn.Module()
            if g > 0:
                parts = [nn.LayerNorm(before, eps), nn.Conv2d(before, width, 2, 2)]
                group.add_module("downsample", nn.ModuleList(parts))
            blocks = [_Block(width, eps, scale) for _ in range(depth)]
            group.add_module("blocks", nn.ModuleList(blocks))
            groups.append(group)
            before = width
        norm = nn.ModuleDict({"norm": nn.LayerNorm(before, eps)})
        trunk = nn.ModuleDict({"stem": nn.ModuleList(stem), "stages": groups, "head": norm})
        out, bias = config["embed_dim"], vision.get("timm_proj_bias", False)
        if vision.get("timm_proj", "linear") == "mlp":
            maps = {"fc1": nn.Linear(before, 2 * out), "fc2": nn.Linear(2 * out, out, bias)}
            head = nn.ModuleDict({"mlp": nn.ModuleDict(maps)})
        else:
            head = nn.ModuleDict({"proj": nn.Linear(before, out, bias)})
        self.visual = nn.ModuleDict({"trunk": trunk, "head": head})
        self.constants = {name: scale for name in self.order() if name.endswith(".gamma")}

    def passes_over(self, name: str) -> bool:
        return name.startswith(OTHER_TOWER) or name in ("logit_scale", "logit_bias")

    def order(self) -> list[str]:
        """A block's scale stands last."""
        names = []
        for name in super().order():
            if not name.endswith(".gamma"):
                names.append(name)
            if name.endswith("mlp.fc2.bias") and ".blocks." in name:
                names.append(name.removesuffix("mlp.fc2.bias") + "gamma")
        return names

    def states(self, x: Tensor) -> list[Tensor]:
        patches, norm = self.visual.get_submodule("trunk.stem").children()
        return self.chain(norm(patches(x).permute(0, 2, 3, 1)))

    def stages(self) -> list[nn.Module]:
        stages: list[nn.Module] = []
        for g, group in enumerate(self.visual.get_submodule("trunk.stages").children()):
            blocks = list(group.get_submodule("blocks").children())
            stages += [_Halved(group), *blocks[1:]] if g > 0 else blocks
        return stages

    def features(self, last: Tensor) -> Tensor:
        h: Tensor = self.visual.get_submodule("trunk.head.norm")(last.mean((1, 2)))
        maps = list(self.visual.get_submodule("head").children())
        if not isinstance(maps[0], nn.Linear):
            first, second = maps[0].children()
            h, maps = F.gelu(first(h)), [second]
        features: Tensor = maps[0](h)
        return features
