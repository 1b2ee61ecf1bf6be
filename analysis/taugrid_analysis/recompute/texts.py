# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""BERT, RoBERTa, T5 and decoders as `recompute` runs them: transformers' own, pooled as their folder says.

A masked language model is read at the mask, by its head's own formula; for the others see t5.py and
decoder.py. A batch of texts is
one tensor [n, tokens, 5] of ids, types, 1 where a token is in use, 1 where it is the mask, and a text to be
answered, its ids plus 1 (0 behind its end), so that it is cut, joined and mapped over as pictures are. Of
rows with choices of their own these follow, two columns each.
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
from torch.nn.functional import gelu, layer_norm, linear, relu
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    PreTrainedConfig,
)
from transformers.pytorch_utils import Conv1D

from taugrid_analysis.recompute import decoder, t5
from taugrid_analysis.recompute.answers import choices, targets

HEADS = {  # of masked language models
    "bert": "cls.predictions.",
    "roberta": "lm_head.",
}

ANSWERING: dict[str, Any] = {"t5": t5, **dict.fromkeys(decoder.TYPES, decoder)}  # modules by model_type


def config_of(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return config


def is_t5(folder: Path) -> bool:
    return config_of(folder).get("model_type") == "t5"


def is_decoder(folder: Path) -> bool:
    return config_of(folder).get("model_type") in decoder.TYPES


def space(folder: Path) -> str:
    """Which one the features lie in."""
    if is_decoder(folder):
        return decoder.SPACE
    if is_t5(folder):
        return "decoder's output at the first step"
    return "word head's output at the mask" if masked(folder) else "encoder output"


def masked(folder: Path) -> bool:
    """Whether it is a masked language model: its config.json names one and no module pools its tokens."""
    if (folder / "modules.json").is_file():
        return False
    config = config_of(folder)
    return str((config.get("architectures") or [""])[0]).endswith(("ForMaskedLM", "ForPreTraining"))


def load(folder: Path, weights: bool = True) -> torch.nn.Module:
    """The folder's model, or without `weights` one of its config.json."""

    def make(kind: Any, **options: Any) -> Any:
        options["attn_implementation"] = "eager"
        if weights:
            return kind.from_pretrained(folder, **options)
        return kind.from_config(AutoConfig.from_pretrained(folder), **options)

    if is_t5(folder):
        loaded = make(AutoModelForSeq2SeqLM)
    elif is_decoder(folder):
        loaded = make(AutoModelForCausalLM)
        if loaded.config.model_type == "gpt2":
            loaded.config.pad_token_id = None  # it would look for this token in what is mapped over
    elif masked(folder):
        loaded = make(AutoModelForMaskedLM)
        if not loaded.config.tie_word_embeddings:  # its decoder has biases of its own
            loaded.get_submodule(HEADS[loaded.config.model_type].rstrip(".")).bias = None
    else:
        loaded = make(AutoModel, add_pooling_layer=False)
    model: torch.nn.Module = loaded
    return model


def mean_pooled(folder: Path) -> bool:
    """Whether the features are the mean over tokens, not the first one."""
    path = folder / "modules.json"
    modules = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    for module in modules:
        if module["type"].endswith(".Pooling"):
            pooling = json.loads((folder / module["path"] / "config.json").read_text(encoding="utf-8"))
            return bool(pooling.get("pooling_mode_mean_tokens", pooling.get("pooling_mode") == "mean"))
    return True


def batch(group: h5py.Group, rows: object, width: int) -> Tensor:
    """The texts of rows of a packed split, padded to `width` tokens."""
    ids = torch.tensor(group["inputs"][rows]).long()
    used = torch.arange(ids.shape[1]) < torch.tensor(group["lengths"][rows])[:, None]
    types = torch.tensor(group["types"][rows]).long() if "types" in group else torch.zeros_like(ids)
    at_mask = torch.zeros_like(ids)
    if "mask" in group:
        at_mask[torch.arange(len(ids)), torch.tensor(group["mask"][rows]).long()] = 1
    parts = torch.stack([ids, types, used.long(), at_mask, torch.zeros_like(ids)], 2) * used[:, :, None]
    parts = torch.nn.functional.pad(parts, (0, 0, 0, width - ids.shape[1]))
    if "targets" in group:
        answers = torch.tensor(targets(group, rows)).clamp(min=-1) + 1
        parts[:, : answers.shape[1], 4] = answers
    if "choices" in group:
        parts = torch.cat([parts, choices(group, rows, width)], 2)
    return parts


def encode(model: torch.nn.Module, mean: bool, p: dict[str, Tensor], x: Tensor) -> Tensor:
    """[n, features] of a batch of texts."""
    ids, types, used, at_mask = x[:, :, :4].unbind(2)
    places = used.cumsum(1) - 1  # where positions count from a text's own tokens
    config: Any = model.config
    if config.model_type in ANSWERING:
        return ANSWERING[config.model_type].encode(model, p, ids, used)
    offset = config.pad_token_id + 1 if config.model_type == "roberta" else 0
    given = {
        "input_ids": ids,
        "token_type_ids": types,
        "attention_mask": used,
        "position_ids": places * used + offset,
    }
    top = HEADS.get(config.model_type, "")
    if not any(name.startswith(top) for name in p):
        h: Tensor = functional_call(model, p, (), given).last_hidden_state
        return (h * used[:, :, None]).sum(1) / used.sum(1, keepdim=True) if mean else h[:, 0]
    inside = f"{config.model_type}."
    inner = {name.removeprefix(inside): value for name, value in p.items() if name.startswith(inside)}
    states: Tensor = functional_call(model.get_submodule(inside[:-1]), inner, (), given).last_hidden_state
    state = (states * at_mask[:, :, None]).sum(1)
    within = top + ("transform." if config.model_type == "bert" else "")
    norm = within + ("LayerNorm" if config.model_type == "bert" else "layer_norm")
    plain = linear(state, p[f"{within}dense.weight"], p[f"{within}dense.bias"])
    bent = relu(plain) if config.model_type == "bert" and config.hidden_act == "relu" else gelu(plain)
    weight, bias = p[f"{norm}.weight"], p[f"{norm}.bias"]
    return layer_norm(bent, weight.shape, weight, bias, config.layer_norm_eps)


def word_rows(model: torch.nn.Module, p: dict[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of the vocabulary that read these words, and their biases."""
    config: Any = model.config
    if config.model_type in ANSWERING:
        return ANSWERING[config.model_type].word_rows(p, words)
    top = HEADS[config.model_type]
    if config.tie_word_embeddings:
        rows, bias = f"{config.model_type}.embeddings.word_embeddings.weight", f"{top}bias"
    else:
        rows, bias = f"{top}decoder.weight", f"{top}decoder.bias"
    return p[rows][words], p[bias][words]


def vocabulary(p: dict[str, Tensor]) -> Tensor:
    """The rows that a decoder is read by: a head, or the embeddings."""
    return p["shared.weight"] if "shared.weight" in p and decoder.HEAD not in p else decoder.vocabulary(p)


def as_linear(model: torch.nn.Module, theta: dict[str, Tensor]) -> dict[str, Tensor]:
    """GPT-2's matrices [in, out] as [out, in], as θ has them, and back; others as they are."""

    def is_turned(name: str) -> bool:
        module, _, part = name.rpartition(".")
        return part == "weight" and isinstance(model.get_submodule(module), Conv1D)

    return {name: values.T if is_turned(name) else values for name, values in theta.items()}


PARTS = ("word_embeddings", "position_embeddings", "token_type_embeddings", "embeddings.LayerNorm")
LAYER = [f"self.{name}.{kind}" for kind in ("weight", "bias") for name in ("query", "key", "value")]
LAYER += ["attention.output.dense", "attention.output.LayerNorm", "intermediate.dense"]
HEAD = (r"\.dense\.", r"LayerNorm|layer_norm", r"decoder\.weight", "bias")


def is_head(name: str) -> bool:
    return name.startswith(tuple(HEADS.values()))


def stage(name: str, config: PreTrainedConfig) -> int:
    """The first stage of the model that uses it: 0 embeddings, 1 the first layer, behind all the head."""
    if config.model_type in ANSWERING:
        return ANSWERING[config.model_type].stage(name, config)
    layers = int(config.num_hidden_layers)
    layer = re.search(r"layer\.(\d+)\.", name)
    return int(layer[1]) + 1 if layer else (layers + 1) * is_head(name)


def in_order(names: Iterable[str]) -> list[str]:
    """The parameters as θ holds them.

    Embeddings; of each layer all three weights of q, k, v, then their biases, the rest; a head.
    """
    names = list(names)
    if "shared.weight" in names:
        return t5.in_order(names)
    if any(name in decoder.WORDS for name in names):
        return decoder.in_order(names)

    def place(name: str) -> tuple[int, int, bool]:
        if is_head(name):
            at = next(i for i, part in enumerate(HEAD) if re.search(part, name))
            return 1_000_000, at, name.endswith("bias")
        layer = re.search(r"layer\.(\d+)\.", name)
        if layer is None:
            return -1, next(i for i, part in enumerate(PARTS) if part in name), name.endswith("bias")
        last = len(LAYER) + ("output.LayerNorm" in name)  # after output.dense
        within = next((i for i, part in enumerate(LAYER) if part in name), last)
        return int(layer[1]), within, name.endswith("bias")

    return sorted(names, key=place)


def random_theta(seed: int, config: PreTrainedConfig, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """θ0 drawn as Hugging Face draws it: normal, biases 0, gains of norms 1, the padding token's rows 0."""
    if config.model_type in ANSWERING:
        return ANSWERING[config.model_type].random_theta(seed, config, parameters)
    generator = torch.Generator().manual_seed(seed)
    theta = {}
    for name in in_order(parameters):
        values = torch.zeros(parameters[name].shape, dtype=torch.float32)
        if "LayerNorm" in name or "layer_norm" in name:
            values.fill_(float(name.endswith("weight")))
        elif name.endswith("weight"):
            values.normal_(0, config.initializer_range, generator=generator)
        padding = config.pad_token_id or 0
        if "word_embeddings" in name or ("position_embeddings" in name and config.model_type == "roberta"):
            values[padding] = 0
        theta[name] = values
    return theta
