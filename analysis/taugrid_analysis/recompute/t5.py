# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""T5 as `recompute` runs it: transformers' own model, read behind one token of its decoder or more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from transformers import PreTrainedConfig

STACKS = ("encoder", "decoder")
INNER = ("q", "k", "v", "o", "relative_attention_bias", "wi", "wi_0", "wi_1", "wo", "layer_norm")


def encode(model: torch.nn.Module, p: dict[str, Tensor], ids: Tensor, used: Tensor) -> Tensor:
    """[n, features]: the decoder's state at its start token, as the head reads it."""
    start_token = torch.full_like(ids[:, :1], start(model))
    return states(model, p, ids, used, start_token)[:, 0]


def start(model: torch.nn.Module) -> int:
    config: Any = model.config
    return int(config.decoder_start_token_id)


def states(model: torch.nn.Module, p: dict[str, Tensor], ids: Tensor, used: Tensor, given: Tensor) -> Tensor:
    """[n, tokens, features]: the decoder's behind each token that it is given, as the head reads it."""
    return reader(model, p, ids, used)(given)


def reader(
    model: torch.nn.Module, p: dict[str, Tensor], ids: Tensor, used: Tensor
) -> Callable[[Tensor], Tensor]:
    """states() of these texts, which the encoder reads once."""
    config: Any = model.config

    def of(stack: str, **given: object) -> Tensor:
        weights = {name.removeprefix(f"{stack}."): v for name, v in p.items() if name.startswith(f"{stack}.")}
        weights["embed_tokens.weight"] = p["shared.weight"]
        output: Tensor = functional_call(model.get_submodule(stack), weights, (), given).last_hidden_state
        return output

    memory = of("encoder", input_ids=ids, attention_mask=used)

    def decoded(given: Tensor) -> Tensor:
        hidden = of(
            "decoder",
            input_ids=given,
            encoder_hidden_states=memory,
            encoder_attention_mask=used,
            use_cache=False,
        )
        return hidden * (config.d_model**-0.5 if config.scale_decoder_outputs else 1.0)

    return decoded


def word_rows(p: dict[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of the head, or of the embeddings where it is them, and no biases."""
    rows = p.get("lm_head.weight", p["shared.weight"])[words]
    return rows, rows.new_zeros(len(words))


def _place(name: str) -> tuple[int, int, int]:
    """Stack (−1: neither), block (of a last norm −1) and number of the layer in it."""
    stack = name.split(".")[0]
    match = re.search(r"block\.(\d+)\.layer\.(\d+)\.", name)
    number = STACKS.index(stack) if stack in STACKS else -1
    return (number, int(match[1]), int(match[2])) if match else (number, -1, 0)


def stage(name: str, config: PreTrainedConfig) -> int:
    """The first stage of the model that uses it: 0 embeddings, the encoder's layers, the decoder's, the head.

    The encoder's last norm is the decoder's beginning.
    """
    settings: Any = config
    stack, block, _ = _place(name)
    if stack < 0:
        return 0 if name == "shared.weight" else settings.num_layers + settings.num_decoder_layers + 1
    end = settings.num_layers + (settings.num_decoder_layers if stack == 1 else 0)
    return end + 1 if block < 0 else stack * int(settings.num_layers) + block + 1


def in_order(names: Iterable[str]) -> list[str]:
    """The parameters as θ holds them.

    The embeddings, the encoder's layers, its norm, the decoder's layers, its norm, the head.
    """

    def place(name: str) -> tuple[int, ...]:
        stack, block, layer = _place(name)
        if stack < 0:
            return (-1 if name == "shared.weight" else len(STACKS),)
        if block < 0:  # the encoder's norm stands where the decoder's first layer begins
            return (stack, 1_000_000)
        inner = next(i for i, part in enumerate(INNER) if f".{part}." in name)
        return (stack, block, layer, inner)

    return sorted(names, key=place)


def random_theta(seed: int, config: PreTrainedConfig, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """θ0 drawn as Hugging Face draws it: normal, gains of norms initializer_factor."""
    settings: Any = config
    generator = torch.Generator().manual_seed(seed)
    deviations = {
        ".q.": (settings.d_model * settings.d_kv) ** -0.5,
        ".o.": (settings.num_heads * settings.d_kv) ** -0.5,
        ".wo.": settings.d_ff**-0.5,
        "shared.": 1.0,
        "lm_head.": 1.0,
    }
    theta = {}
    for name in in_order(parameters):
        values = torch.zeros(parameters[name].shape, dtype=torch.float32)
        if "layer_norm" in name:
            values.fill_(settings.initializer_factor)
        else:
            deviation = next((v for part, v in deviations.items() if part in name), settings.d_model**-0.5)
            values.normal_(0, settings.initializer_factor * deviation, generator=generator)
        theta[name] = values
    return theta
