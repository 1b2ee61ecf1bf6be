# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""BERT and RoBERTa as `recompute` runs them: transformers' own models, pooled as their folder says.

A batch of texts is one tensor [n, tokens, 3] of ids, types and 1 where a token is in use, so that it is cut,
joined and mapped over as pictures are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import torch
from torch import Tensor
from torch.func import functional_call
from transformers import AutoModel, PreTrainedConfig


def load(folder: Path) -> torch.nn.Module:
    made: torch.nn.Module = AutoModel.from_pretrained(
        folder, add_pooling_layer=False, attn_implementation="eager"
    )
    return made


def mean_pooled(folder: Path) -> bool:
    """Whether the features are the mean over tokens, not the first one."""
    path = folder / "modules.json"
    modules = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    for module in modules:
        if module["type"].endswith(".Pooling"):
            told = json.loads((folder / module["path"] / "config.json").read_text(encoding="utf-8"))
            return bool(told.get("pooling_mode_mean_tokens", told.get("pooling_mode") == "mean"))
    return True


def batch(group: h5py.Group, rows: object, width: int) -> Tensor:
    """Of rows of a packed split, padded to `width` tokens."""
    ids = torch.tensor(group["inputs"][rows]).long()
    used = torch.arange(ids.shape[1]) < torch.tensor(group["lengths"][rows])[:, None]
    types = torch.tensor(group["types"][rows]).long() if "types" in group else torch.zeros_like(ids)
    parts = torch.stack([ids, types, used.long()], 2) * used[:, :, None]
    return torch.nn.functional.pad(parts, (0, 0, 0, width - ids.shape[1]))


def encode(model: torch.nn.Module, mean: bool, p: dict[str, Tensor], x: Tensor) -> Tensor:
    """[n, features] of a batch of texts."""
    ids, types, used = x.unbind(2)
    places = used.cumsum(1) - 1  # where positions count from a text's own tokens
    config: Any = model.config
    offset = config.pad_token_id + 1 if config.model_type == "roberta" else 0
    given = {
        "input_ids": ids,
        "token_type_ids": types,
        "attention_mask": used,
        "position_ids": places * used + offset,
    }
    h: Tensor = functional_call(model, p, (), given).last_hidden_state
    return (h * used[:, :, None]).sum(1) / used.sum(1, keepdim=True) if mean else h[:, 0]


PARTS = ("word_embeddings", "position_embeddings", "token_type_embeddings", "embeddings.LayerNorm")
LAYER = [f"self.{one}.{kind}" for kind in ("weight", "bias") for one in ("query", "key", "value")]
LAYER += ["attention.output.dense", "attention.output.LayerNorm", "intermediate.dense"]


def in_order(names: Iterable[str]) -> list[str]:
    """The parameters as θ holds them.

    Embeddings; of each layer all three weights of q, k, v, then their biases, the rest.
    """

    def place(name: str) -> tuple[int, int, bool]:
        layer = re.search(r"layer\.(\d+)\.", name)
        if layer is None:
            return -1, next(i for i, part in enumerate(PARTS) if part in name), name.endswith("bias")
        last = len(LAYER) + ("output.LayerNorm" in name)  # after output.dense
        within = next((i for i, part in enumerate(LAYER) if part in name), last)
        return int(layer[1]), within, name.endswith("bias")

    return sorted(names, key=place)


def random_theta(seed: int, config: PreTrainedConfig, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """θ0 drawn as Hugging Face draws it: normal, biases 0, gains of norms 1, the padding token's rows 0."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name in in_order(parameters):
        values = torch.zeros(parameters[name].shape, dtype=torch.float32)
        if "LayerNorm" in name:
            values.fill_(float(name.endswith("weight")))
        elif name.endswith("weight"):
            values.normal_(0, config.initializer_range, generator=generator)
        padding = config.pad_token_id or 0
        if "word_embeddings" in name or ("position_embeddings" in name and config.model_type == "roberta"):
            values[padding] = 0
        found[name] = values
    return found
