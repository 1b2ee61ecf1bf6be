# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""CLIP's image tower against transformers, its derivative products against torch.func."""

import os
import subprocess
from pathlib import Path

import pytest
import torch
from oracle import relative
from safetensors.torch import load_file, save_file
from torch.func import functional_call, jacrev, jvp
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

PROBE = os.environ["MODEL_PROBE"]

# Shapes of B/32, B/16 and L/14 with fewer and narrower layers; one full B/32.
SHAPES = {
    "b32": dict(hidden_size=96, intermediate_size=384, num_hidden_layers=3, num_attention_heads=12,
                image_size=224, patch_size=32, projection_dim=64),
    "b16": dict(hidden_size=48, intermediate_size=192, num_hidden_layers=2, num_attention_heads=12,
                image_size=224, patch_size=16, projection_dim=64),
    "l14": dict(hidden_size=64, intermediate_size=256, num_hidden_layers=3, num_attention_heads=16,
                image_size=224, patch_size=14, projection_dim=96),
    "gelu": dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                 image_size=32, patch_size=8, projection_dim=16, hidden_act="gelu"),
    "full_b32": dict(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12,
                     image_size=224, patch_size=32, projection_dim=512),
}


def make_model(shape: dict, tmp: Path) -> CLIPVisionModelWithProjection:
    torch.manual_seed(7)
    model = CLIPVisionModelWithProjection(CLIPVisionConfig(**shape)).eval()
    with torch.no_grad():  # Biases and norms away from their initial zeros and ones.
        for p in model.parameters():
            if p.ndim == 1:
                p.add_(0.1 * torch.randn_like(p))
    model.save_pretrained(tmp / "theirs")
    return model


def probe(tmp: Path, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    save_file({k: v.contiguous() for k, v in inputs.items()}, tmp / "in.safetensors")
    subprocess.run([PROBE, tmp / "theirs", tmp / "in.safetensors", tmp / "out.safetensors", tmp / "ours"], check=True)
    return load_file(tmp / "out.safetensors")


@pytest.mark.parametrize("name", SHAPES)
def test_forward_agrees_with_transformers_both_ways(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    model = make_model(shape, tmp_path)
    pixels = torch.randn(3, 3, shape["image_size"], shape["image_size"])
    out = probe(tmp_path, {"pixels": pixels})
    with torch.no_grad():
        theirs = model(pixel_values=pixels).image_embeds
        assert relative(out["encoded"], theirs) < 1e-5
        again = CLIPVisionModelWithProjection.from_pretrained(tmp_path / "ours").eval()
        assert torch.equal(again(pixel_values=pixels).image_embeds, theirs)


def test_products_agree_with_torch_func(tmp_path: Path) -> None:
    shape = dict(hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=3, image_size=16,
                 patch_size=8, projection_dim=12, attn_implementation="eager")
    model = make_model(shape, tmp_path)
    n, classes = 5, 4
    pixels = torch.randn(n, 3, 16, 16)
    head = torch.nn.functional.normalize(torch.randn(classes, 12), dim=1)
    scale, labels = 20.0, torch.tensor([0, 1, 2, 3, 1])
    theta = {k: v.detach() for k, v in model.named_parameters()}
    tau = {k: 0.05 * torch.randn_like(v) for k, v in theta.items()}
    out = probe(tmp_path, {"pixels": pixels, "head": head, "scale": torch.tensor([scale]), "labels": labels,
                           **{f"tau.{k}": v for k, v in tau.items()}})

    model.double()
    theta = {k: v.double() for k, v in theta.items()}
    tau = {k: v.double() for k, v in tau.items()}

    def encode(p: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return functional_call(model, p, (), {"pixel_values": x}).image_embeds

    def logits(p: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return scale * torch.nn.functional.normalize(encode(p, x), dim=-1) @ head.double().T

    def loss(p: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(logits(p, pixels.double()), labels)

    assert relative(out["jvp"], jvp(lambda p: encode(p, pixels.double()), (theta,), (tau,))[1]) < 1e-5
    assert relative(out["jvp_logits"], jvp(lambda p: logits(p, pixels.double()), (theta,), (tau,))[1]) < 1e-5

    gradient = torch.func.grad(loss)(theta)
    hv = jvp(torch.func.grad(loss), (theta,), (tau,))[1]
    for key, oracle in (("gradient.", gradient), ("hvp.", hv)):
        ours = torch.cat([out[key + k].flatten() for k in theta])
        assert relative(ours, torch.cat([oracle[k].flatten() for k in theta])) < 2e-5
    assert abs(float(out["loss"]) - float(loss(theta))) < 1e-5 * float(loss(theta))

    def logits_of(p: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return logits(p, x[None])[0]

    jacobian = torch.func.vmap(jacrev(logits_of), (None, 0))(theta, pixels.double())
    flat = torch.cat([v.flatten(2) for v in jacobian.values()], 2)  # [n, classes, P]
    assert relative(out["per_sample_norm"], flat.sum(1).norm(dim=1)) < 1e-5
    summed = torch.cat([out["per_sample_sum." + k].flatten() for k in theta])
    assert relative(summed, flat.sum((0, 1))) < 1e-5
    for c in range(2):
        gram = flat[:, c] @ flat[:, c].T
        assert relative(out["gram"][c], gram) < 1e-5
        assert relative(out["gram_factors"][c], gram[1:]) < 1e-5
