# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the two loops over layers share: the study that `taugrid bench` dumped, features by forward hooks, and the most
bytes of tensors alive in one more run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import torch
from common import Inputs, Parameters
from safetensors.torch import load_file
from torch import Tensor
from torch.func import functional_call
from torch.profiler import ProfilerActivity, profile
from transformers import CLIPVisionModelWithProjection

ALPHA, TASKS, BATCH = (0.25, 0.5, 0.75), 3, 16
PAIRS = [(i, j) for i in range(TASKS) for j in range(i + 1, TASKS)]


class Study:
    """Models by their names, and each task's pictures."""

    def __init__(self, inputs: Inputs, points: int = 256) -> None:
        folder = inputs.folder / f"linearity_{points}"
        self.model = CLIPVisionModelWithProjection.from_pretrained(folder / "model", attn_implementation="sdpa").eval()
        self.start = load_file(folder / "model" / "model.safetensors")
        run = folder / "run" / "checkpoints" / "standard"
        self.tuned = [load_file(run / f"task{t}" / "model.safetensors") for t in range(TASKS)]
        self.pictures = [self._pictures(folder / "data" / f"task{t}.h5") for t in range(TASKS)]
        self.outputs: list[Tensor] = []
        tower = self.model.vision_model
        for module in (tower.pre_layrnorm, *tower.encoder.layers):
            module.register_forward_hook(self._keep)

    @staticmethod
    def _pictures(path: Path) -> Tensor:
        with h5py.File(path) as file:
            mean, std = (torch.tensor(file.attrs[name]).float().view(-1, 1, 1) for name in ("mean", "std"))
            return (torch.tensor(file["test/inputs"][()]).permute(0, 3, 1, 2) / 255 - mean) / std

    def _keep(self, _module: torch.nn.Module, _inputs: object, output: object) -> None:
        self.outputs.append((output[0] if isinstance(output, tuple) else output).flatten(1))

    def layers(self, p: Parameters, x: Tensor) -> list[Tensor]:
        """The embedding's, every block's and the output's features [n, numbers] of one batch."""
        self.outputs = []
        last = functional_call(self.model, p, kwargs={"pixel_values": x}).image_embeds
        outputs, self.outputs = [*self.outputs, last], []
        return outputs

    def mixed(self, i: int, j: int, alpha: float) -> Parameters:
        return {name: alpha * v + (1 - alpha) * self.tuned[j][name] for name, v in self.tuned[i].items()}

    def parameter_bytes(self) -> int:
        return sum(4 * v.numel() for v in self.start.values())


def peak_memory(run: Callable[[], object], held: int) -> Tensor:
    """Bytes, less those of a mixed model's parameters."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    alive = most = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            alive += event.nbytes()
            most = max(most, alive)
    return torch.tensor([most - held])
