# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Small decoders that a test trains for some seconds, a Gemma 2, a Llama and a GPT-2, with prompts and an experiment
each."""

from pathlib import Path
from typing import Any

import torch
from text_worlds import FEW, LABELS, WORDS, PromptWorld, named, pack_prompts, train_on_prompts, word_tokenizer
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM
from world import EXPERIMENT

VOCABULARY = ["<pad>", "<unk>", "it", "is", ".", "?", *(word for words in LABELS.values() for word in words), *WORDS]
LONGEST = 18
PROMPTS = {"pairs": "{text} ? {second} . it is"}
PLAIN = "{text} . it is"
SMALL: dict[str, Any] = {
    "vocab_size": len(VOCABULARY), "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64,
    "pad_token_id": 0, "tie_word_embeddings": True,
}
GEMMA = {"sliding_window": 6, "query_pre_attn_scalar": 6, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 9.0}


def train(folder: Path, family: str, **more: Any) -> None:
    """Trains on prompts of other texts, for some seconds on one core."""
    torch.set_num_threads(1)  # more would wait for each other
    torch.manual_seed(11)
    tokenizer = word_tokenizer(VOCABULARY)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **SMALL, **more), attn_implementation="eager")

    def answer(ids: Tensor, lengths: Tensor) -> Tensor:
        return model(input_ids=ids, use_cache=False).logits[torch.arange(len(ids)), lengths - 1]

    train_on_prompts(model, tokenizer, PROMPTS, PLAIN, LONGEST, answer, folder)


EVERY = EXPERIMENT.replace('["standard", "linear"]', '["standard", "linear", "attention"]').replace(
    '"corners"]', '"corners"]\ncontrol = "plaids"') + """
[cost]
steps = 3

[merging]
methods = ["ties", "fisher", "regmean"]
[merging.fisher]
points = 20
[merging.regmean]
points = 20
"""
FROZEN = FEW.replace('path = "model"', 'path = "model"\nlabel_words = "frozen"').replace(
    "steps = 25", "steps = 12\nfirst_stage = 2", 1)


def world_of(folder: Path, family: str, **more: Any) -> PromptWorld:
    train(folder / "model", family, **more)
    pack_prompts(folder, PROMPTS, PLAIN, LONGEST)
    return PromptWorld(folder)


def gemma_world(folder: Path) -> PromptWorld:
    """All stages are trained, in every regime and by methods that take data."""
    world = world_of(folder, "gemma2", **GEMMA)
    world.experiment.write_text(named(EVERY))
    return world


def gpt2_world(folder: Path) -> PromptWorld:
    """The same, of a model whose matrices lie transposed in its checkpoints, with a regime of low rank."""
    world = world_of(folder, "gpt2")
    world.experiment.write_text(named(EVERY.replace('"attention"]', '"attention", "lora"]\nlora_rank = 2')))
    return world


def llama_world(folder: Path) -> PromptWorld:
    """The lowest layers stay as they are, and so do the label words."""
    world = world_of(folder, "llama")
    world.experiment.write_text(named(FROZEN))
    return world
