# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The bench's models of texts in transformers: BERT, the mean over tokens in use, and a Llama, the last token; with a
frozen cosine head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from common import Inputs
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import BertModel, LlamaModel

NTK_LOGITS, SCALE = 2, 30.0


@dataclass(frozen=True)
class Shape:
    """The folder of the dump that a model lies in, and how many texts its cases take."""

    folder: str
    step: int
    ntk: int
    hessian: int


SHAPES = {
    "": Shape("minilm", 16, 8, 16),
    "_full": Shape("minilm_full", 16, 8, 16),
    "_decoder": Shape("smollm2", 8, 4, 2),
    "_decoder_whole": Shape("smollm2_whole", 0, 0, 0),
}


class Texts(nn.Module):
    """Takes tokens and lengths stacked, [n, 1 + tokens], so that both go through vmap as one."""

    def __init__(self, inputs: Inputs, attention: str = "eager") -> None:
        super().__init__()
        self.shape = SHAPES[inputs.of]
        folder = inputs.folder / self.shape.folder
        self.decodes = inputs.of.startswith("_decoder")
        if self.decodes:
            self.encoder = LlamaModel.from_pretrained(folder, attn_implementation=attention).eval()
        else:
            self.encoder = BertModel.from_pretrained(
                folder, attn_implementation=attention, add_pooling_layer=False
            ).eval()
        held = load_file(folder / "inputs.safetensors", inputs.head.device.type)
        self.register_buffer("head", held["head"])
        self.labels = held["labels"]
        self.texts = torch.cat([held["lengths"][:, None], held["ids"]], 1)
        self.to(self.texts.device)

    def forward(self, texts: Tensor) -> Tensor:
        lengths, ids = texts[:, 0], texts[:, 1:]
        if self.decodes:  # all prompts are full
            z = self.encoder(input_ids=ids, use_cache=False).last_hidden_state[:, -1]
            return SCALE * nn.functional.normalize(z, dim=-1) @ self.head.T
        mask = torch.arange(ids.shape[1])[None] < lengths[:, None]
        # What is added to the scores: of a mask of two dimensions transformers asks whether it hides anything, which
        # vmap forbids.
        hidden = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
        hidden = hidden[:, None, None].expand(-1, 1, ids.shape[1], -1)
        states = self.encoder(input_ids=ids, attention_mask=hidden).last_hidden_state
        z = (states * mask[..., None]).sum(1) / lengths[:, None]
        return SCALE * nn.functional.normalize(z, dim=-1) @ self.head.T
