# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A CLIP of open_clip on timm's ConvNeXt, whose tensors have their names, against transformers' ConvNextModel with the
same numbers, a projection behind it, and torch.func, in double precision."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.func import functional_call, grad, jacrev, jvp, vmap
from torch.nn import functional as F
from transformers import ConvNextConfig, ConvNextModel

PROBE = os.environ["MODEL_PROBE"]
DEPTHS, DIMS, SIDE, OUT = [1, 2], [6, 10], 13, 7
TIMM = [  # transformers' names, and timm's
    (r"^embeddings\.patch_embeddings", "stem.0"),
    (r"^embeddings\.layernorm", "stem.1"),
    (r"^encoder\.stages", "stages"),
    (r"downsampling_layer", "downsample"),
    (r"\.layers\.", ".blocks."),
    (r"\.dwconv\.", ".conv_dw."),
    (r"(blocks\.\d+)\.layernorm\.", r"\1.norm."),
    (r"\.pwconv([12])\.", r".mlp.fc\1."),
    (r"\.layer_scale_parameter$", ".gamma"),
    (r"^layernorm\.", "head.norm."),
]
# What else the file of a whole CLIP has.
OTHERS = ("logit_scale", "positional_embedding", "text_projection", "token_embedding.weight", "ln_final.bias",
          "transformer.resblocks.0.ln_1.weight")


def name_of(theirs: str) -> str:
    for pattern, ours in TIMM:
        theirs = re.sub(pattern, ours, theirs)
    return f"visual.trunk.{theirs}"


class World:
    def __init__(self, folder: Path, vision: dict) -> None:
        torch.manual_seed(3)
        self.folder = folder
        self.eps, self.deep = vision.get("norm_eps", 1e-6), vision.get("timm_proj") == "mlp"
        trunk = ConvNextModel(ConvNextConfig(depths=DEPTHS, hidden_sizes=DIMS, num_stages=2, num_channels=2,
                                             patch_size=3, image_size=SIDE, layer_scale_init_value=0.5))
        for module in trunk.modules():  # transformers' last norm alone has the configuration's ε
            if hasattr(module, "eps"):
                module.eps = self.eps
        self.trunk = trunk.double().eval()
        self.theta = {name_of(k): (v + (0.1 if v.ndim == 1 else 0.05) * torch.randn_like(v)).float().double()
                      for k, v in trunk.state_dict().items()}
        sizes = {"mlp.fc1": (2 * OUT, DIMS[-1]), "mlp.fc2": (OUT, 2 * OUT)} if self.deep else {"proj": (OUT, DIMS[-1])}
        for name, size in sizes.items():
            self.theta[f"visual.head.{name}.weight"] = torch.randn(size)
            if name == "mlp.fc1" or vision.get("timm_proj_bias"):
                self.theta[f"visual.head.{name}.bias"] = torch.randn(size[0])
        self.theta = {k: v.double() for k, v in self.theta.items()}
        self.stored = {k: v.float().contiguous() for k, v in self.theta.items()}
        (folder / "theirs").mkdir()
        save_file(self.stored | {k: torch.ones(3) for k in OTHERS}, folder / "theirs" / "model.safetensors")
        shape = {"depths": DEPTHS, "dims": DIMS, "patch_size": 3, "in_chans": 2, "image_size": SIDE}
        self.config = {"model_type": "open_clip", "embed_dim": OUT, "vision_cfg": shape | vision,
                       "text_cfg": {"width": 16}}
        self.write(self.config)
        self.pixels = torch.randn(4, 2, SIDE, SIDE, dtype=torch.double)
        self.labels = torch.tensor([0, 1, 2, 1])
        self.head = F.normalize(torch.randn(3, OUT, dtype=torch.double))

    def write(self, config: dict) -> None:
        (self.folder / "theirs" / "config.json").write_text(json.dumps(config))

    def features(self, p: dict[str, Tensor], x: Tensor) -> Tensor:
        inner = {k: p[name_of(k)] for k in self.trunk.state_dict()}
        h = functional_call(self.trunk, inner, (), {"pixel_values": x}).pooler_output
        name = "visual.head.proj"
        if self.deep:
            h = F.gelu(F.linear(h, p["visual.head.mlp.fc1.weight"], p["visual.head.mlp.fc1.bias"]))
            name = "visual.head.mlp.fc2"
        return F.linear(h, p[f"{name}.weight"], p.get(f"{name}.bias"))

    def logits(self, p: dict[str, Tensor], x: Tensor) -> Tensor:
        return 9 * F.normalize(self.features(p, x), dim=-1) @ self.head.T

    def probe(self, inputs: dict[str, Tensor]) -> subprocess.CompletedProcess[str]:
        save_file({k: v.contiguous() for k, v in inputs.items()}, self.folder / "in.safetensors")
        files = ("theirs", "in.safetensors", "out.safetensors", "ours")
        return subprocess.run([PROBE, *(self.folder / name for name in files)], capture_output=True, text=True,
                              check=False)


@pytest.mark.parametrize("vision", [{"timm_proj": "linear", "timm_pool": "", "timm_drop_path": 0.1},
                                    {"timm_proj": "mlp", "timm_proj_bias": True, "norm_eps": 1e-3}])
def test_every_quantity_agrees_and_the_tower_comes_back(vision: dict, tmp_path: Path) -> None:
    world = World(tmp_path, vision)
    x, theta, names = world.pixels, world.theta, list(world.theta)
    tau = {k: 0.05 * torch.randn_like(v) for k, v in theta.items()}
    done = world.probe({"pixels": x, "labels": world.labels, "head": world.head,
                        "scale": torch.full((1,), 9.0, dtype=torch.double), **{f"tau.{k}": v for k, v in tau.items()}})
    assert done.returncode == 0, done.stderr
    out = load_file(tmp_path / "out.safetensors")

    def same(ours: Tensor, theirs: Tensor) -> bool:
        return float((ours - theirs).detach().norm() / theirs.detach().norm()) < 1e-10

    def flat(of: dict[str, Tensor], key: str = "") -> Tensor:
        return torch.cat([of[key + name].flatten() for name in names])

    def loss(p: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(world.logits(p, x), world.labels)

    assert same(out["encoded"], world.features(theta, x))
    assert same(out["jvp"], jvp(lambda p: world.features(p, x), (theta,), (tau,))[1])
    assert same(flat(out, "gradient."), flat(grad(loss)(theta)))
    assert same(flat(out, "hvp."), flat(jvp(grad(loss), (theta,), (tau,))[1]))
    each = vmap(jacrev(lambda p, image: world.logits(p, image[None])[0]), (None, 0))(theta, x)
    rows = torch.cat([each[name].flatten(2) for name in names], 2)  # [n, classes, P]
    assert same(out["per_sample_norm"], rows.sum(1).norm(dim=1))
    assert same(flat(out, "per_sample_sum."), rows.sum((0, 1)))
    assert all(same(out["gram"][c], rows[:, c] @ rows[:, c].T) for c in range(2))
    after = load_file(tmp_path / "ours" / "model.safetensors")
    assert after.keys() == world.stored.keys()
    assert all(v.numpy().tobytes() == after[k].numpy().tobytes() for k, v in world.stored.items())
    assert json.loads((tmp_path / "ours" / "config.json").read_text()) == world.config


@pytest.mark.parametrize(("vision", "named"), [
    ({"timm_model_name": "vit_base_patch16_224"}, "is 'vit_base_patch16_224'; expected one of convnext_base"),
    ({"timm_proj": "none"}, "timm_proj is 'none'; expected linear or mlp"),
    ({"timm_pool": "rot_attn"}, "timm_pool is 'rot_attn'; expected avg or nothing"),
    ({"dims": [6]}, "dims has 1 numbers and depths 2"),
    ({"image_size": 5}, "image_size is 5; expected at least 6"),
    ({"timm_proj_bias": True}, "visual.head.proj.bias"),
])
def test_what_is_no_such_model_is_refused_in_one_line(vision: dict, named: str, tmp_path: Path) -> None:
    world = World(tmp_path, {})
    world.write(world.config | {"vision_cfg": world.config["vision_cfg"] | vision})
    done = world.probe({"pixels": world.pixels})
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert named in done.stderr, done.stderr
