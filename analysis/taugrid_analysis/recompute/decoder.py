# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Decoder-only language models as `recompute` runs them: transformers' own, read at a prompt's last token.

Answers of several tokens are read behind it, each token at the one before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from transformers import PreTrainedConfig

# ministral: what transformers calls a Mistral whose config.json has layer_types.
TYPES = ("llama", "mistral", "ministral", "qwen2", "qwen3", "gemma2", "gemma3_text", "gpt2")
SPACE = "decoder's output at the last token"
WORDS, HEAD = ("model.embed_tokens.weight", "transformer.wte.weight"), "lm_head.weight"
EMBEDDINGS = [*WORDS, "transformer.wpe.weight"]
BEHIND = ["model.norm.weight", "transformer.ln_f.weight", "transformer.ln_f.bias", HEAD]
INNER = [
    "input_layernorm",
    *("q_proj.weight", "q_proj.bias", "k_proj.weight", "v_proj.weight", "k_proj.bias", "v_proj.bias"),
    *("q_norm", "k_norm", "o_proj.weight", "o_proj.bias", "post_attention_layernorm"),
    *("pre_feedforward_layernorm", "gate_proj.weight", "up_proj.weight", "gate_proj.bias", "up_proj.bias"),
    *("down_proj.weight", "down_proj.bias", "post_feedforward_layernorm"),
    # GPT-2's
    *("ln_1.weight", "ln_1.bias", "c_attn.weight", "c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias"),
    *("ln_2.weight", "ln_2.bias", "c_fc.weight", "c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"),
]


def encode(model: torch.nn.Module, p: dict[str, Tensor], ids: Tensor, used: Tensor) -> Tensor:
    """[n, features]: the state at each text's last token, behind the last norm.

    Texts are padded behind their ends, where no token before them looks: no mask is needed.
    """
    is_last = used - torch.nn.functional.pad(used[:, 1:], (0, 1))
    return (_states(model, p, ids) * is_last[:, :, None]).sum(1)


def _states(model: torch.nn.Module, p: dict[str, Tensor], ids: Tensor) -> Tensor:
    body = "transformer" if hasattr(model, "transformer") else "model"
    weights = {name.removeprefix(f"{body}."): v for name, v in p.items() if name.startswith(f"{body}.")}
    given = {"input_ids": ids, "use_cache": False}
    hidden: Tensor = functional_call(model.get_submodule(body), weights, (), given).last_hidden_state
    return hidden


def stages(model: Any) -> list[torch.nn.Module]:
    """What gives the state behind the embeddings, then every layer."""
    if hasattr(model, "transformer"):
        return [model.transformer.drop, *model.transformer.h]  # positions are added before the dropout
    return [model.model.embed_tokens, *model.model.layers]


def start(model: torch.nn.Module) -> int:
    """What stands for the first token that states() is given: whatever, the prompt's last one is there."""
    return 0


def states(model: torch.nn.Module, p: dict[str, Tensor], ids: Tensor, used: Tensor, given: Tensor) -> Tensor:
    """[n, places, features]: the states at each text's last token, and at given[:, 1:] behind it."""
    behind = used.sum(1, keepdim=True).long() + torch.arange(given.shape[1]) - 1
    lines = torch.nn.functional.pad(ids, (0, given.shape[1] - 1)).scatter(1, behind[:, 1:], given[:, 1:])
    return _states(model, p, lines)[torch.arange(len(ids))[:, None], behind]


def reader(
    model: torch.nn.Module, p: dict[str, Tensor], ids: Tensor, used: Tensor
) -> Callable[[Tensor], Tensor]:
    """states() of these texts."""
    return lambda given: states(model, p, ids, used, given)


def word_rows(p: dict[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of the head, or of the embeddings where it is them, and no biases."""
    rows = vocabulary(p)[words]
    return rows, rows.new_zeros(len(words))


def vocabulary(p: dict[str, Tensor]) -> Tensor:
    return p[next(name for name in (HEAD, *WORDS) if name in p)]


def capped(config: PreTrainedConfig, logits: Tensor) -> Tensor:
    """cap·tanh(logits/cap), as Gemma 2 has it."""
    cap = getattr(config, "final_logit_softcapping", None)
    return logits if cap is None else cap * torch.tanh(logits / cap)


def _layer(name: str) -> int | None:
    match = re.match(r"(?:model\.layers|transformer\.h)\.(\d+)\.", name)
    return int(match[1]) if match else None


def stage(name: str, config: PreTrainedConfig) -> int:
    """The first stage of the model that uses it: 0 embeddings, 1 the first layer, last norm and head."""
    settings: Any = config
    layer = _layer(name)
    if layer is not None:
        return layer + 1
    return 0 if name in EMBEDDINGS else int(settings.num_hidden_layers) + 1


def in_order(names: Iterable[str]) -> list[str]:
    """The parameters as θ holds them: embeddings, layers, the last norm, a head of its own.

    θ has GPT-2's matrices as [out, in], which its checkpoints and transformers hold as [in, out].
    """

    def place(name: str) -> tuple[int, int]:
        layer = _layer(name)
        if layer is not None:
            return layer, next(i for i, part in enumerate(INNER) if f".{part}" in name)
        return (-1, EMBEDDINGS.index(name)) if name in EMBEDDINGS else (1_000_000, BEHIND.index(name))

    return sorted(names, key=place)


def random_theta(seed: int, config: PreTrainedConfig, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """θ0 drawn as Hugging Face draws it: normal, biases and the padding token's row 0, norms times 1."""
    settings: Any = config
    generator = torch.Generator().manual_seed(seed)
    theta = {}
    for name in in_order(parameters):
        values = torch.zeros(parameters[name].shape, dtype=torch.float32)
        onto_residuals = name.endswith(".c_proj.weight")  # GPT-2's
        if re.search(r"(norm|ln_\w)\.weight$", name):
            values.fill_(float(not settings.model_type.startswith("gemma")))
        elif name.endswith("weight"):
            deviation = settings.initializer_range
            deviation /= math.sqrt(2 * settings.num_hidden_layers) if onto_residuals else 1
            values.normal_(0, deviation, generator=generator)
        if name == WORDS[0] and settings.pad_token_id is not None and settings.pad_token_id >= 0:
            values[settings.pad_token_id] = 0
        theta[name] = values
    return theta
