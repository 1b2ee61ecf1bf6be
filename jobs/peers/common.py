# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the peers in PyTorch share: the inputs that `taugrid bench --dump FOLDER` wrote, and results."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import timing
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from transformers import CLIPVisionModelWithProjection
from transformers.utils import logging

logging.disable_progress_bar()
warnings.filterwarnings("ignore", message="Using backward.. with create_graph=True")  # PyHessian's way
Parameters = dict[str, Tensor]


class Inputs:
    """The model's folder, pixels [128, 3, 32, 32], labels [128] and head [10, 384] of one dump."""

    def __init__(self, folder: Path, of: str) -> None:
        self.folder, self.of = folder, of
        with safe_open(folder / "inputs.safetensors", "pt", device=timing.DEVICE) as file:
            self.pixels, self.labels, self.head = (file.get_tensor(k) for k in ("pixels", "labels", "head"))
            self.settings = {key: float(value) for key, value in file.metadata().items()}

    def count(self, name: str) -> int:
        return int(self.settings[name])

    def classifier(self, model: str = "model", attention: str = "eager") -> Classifier:
        encoder = CLIPVisionModelWithProjection.from_pretrained(self.folder / model, attn_implementation=attention)
        return Classifier(encoder.eval(), self.head, self.settings["scale"]).to(timing.DEVICE)

    def task_vector(self, regime: str, task: str, run: str = "") -> Parameters:
        """The fine-tuned encoder minus the pre-trained one, by Hugging Face's names."""
        checkpoint = self.folder / (run or regime) / "checkpoints" / regime / task
        start, end = (load_file(folder / "model.safetensors", timing.DEVICE)
                      for folder in (self.folder / "model", checkpoint))
        return {name: end[name] - start[name] for name in start}


class Classifier(nn.Module):
    """Encoder and frozen head: logits = scale · cosine."""

    def __init__(self, encoder: nn.Module, head: Tensor, scale: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("head", head)
        self.scale = scale

    def logits(self, z: Tensor) -> Tensor:
        return self.scale * nn.functional.normalize(z, dim=-1) @ self.head.T

    def forward(self, pixels: Tensor) -> Tensor:
        return self.logits(self.encoder(pixel_values=pixels).image_embeds)


def alpha_grid(steps: int) -> Tensor:
    return torch.linspace(-3, 3, steps, dtype=torch.float64)


def training_step(
    inputs: Inputs, model: nn.Module, logits: Callable[[Tensor], Tensor] | None = None, fused: bool = False
) -> Callable[[], dict[str, Tensor]]:
    """One step of PyTorch's AdamW on the whole batch; `logits`: what is called in the model's place."""
    settings, forward = inputs.settings, model if logits is None else logits
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=settings["learning_rate"], weight_decay=settings["weight_decay"], fused=fused
    )
    losses: list[float] = []

    def run() -> dict[str, Tensor]:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(forward(inputs.pixels), inputs.labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        optimiser.step()
        losses.append(loss.item())
        return {"losses": torch.tensor(losses, dtype=torch.float64)}

    return run


def tangent_kernel(model: nn.Module, pixels: Tensor) -> Callable[[], dict[str, Tensor]]:
    """NTK by torch.func, as PyTorch's tutorial contracts Jacobians: vmap(jacrev), then a product over parameters."""
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def logits(p: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(model, p, (x[None],))[0]

    def run() -> dict[str, Tensor]:
        jacobians = vmap(jacrev(logits), (None, 0))(parameters, pixels).values()
        flat = (j.flatten(2) for j in jacobians)  # [points, logits, parameters]
        return {"gram": sum(torch.einsum("ncf,mcf->cnm", j, j) for j in flat)}

    return run


def measure(name: str, prepare: Callable[[Inputs], Callable[[], dict[str, Tensor]]]) -> None:
    """Times what `prepare` returns and prints the seconds as JSON; FOLDER/peers/NAME.safetensors gets its tensors."""
    options = timing.arguments(name)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.set_default_device(timing.DEVICE)
    reduced = os.environ.get("TAUGRID_PEERS_TF32") == "1"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = reduced
    torch.manual_seed(options.seed)
    results = timing.repeated(name, options, prepare(Inputs(options.folder, options.of)))
    save_file({k: v.cpu().contiguous() for k, v in results.items()}, timing.results_of(name, options))
