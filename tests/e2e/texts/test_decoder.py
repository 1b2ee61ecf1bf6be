# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Decoders from end to end: a small Gemma 2 and a small Llama that this test trains, read at a prompt's last token, all
numbers again by transformers, and on the rehearsal device."""

from pathlib import Path
from typing import Any

import h5py
import pytest
import rehearsal
import torch
from compare import assert_close, differing, numbers
from launch import measure
from text_worlds import (
    FEW,
    LABELS,
    WORDS,
    PromptWorld,
    Source,
    again,
    assert_answers_are_learnt,
    changed_tensors,
    filled_prompts,
    named,
    pack_prompts,
    refused_in_one_line,
    with_masks,
    word_tokenizer,
)
from torch.nn.functional import cross_entropy
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
    source, optimiser = Source(2), torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(200):
        ids, lengths, wanted = filled_prompts(source, tokenizer, PROMPTS, PLAIN, LONGEST)
        logits = model(input_ids=ids, use_cache=False).logits
        loss = cross_entropy(logits[torch.arange(len(ids)), lengths - 1], wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


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


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> PromptWorld:
    world = world_of(tmp_path_factory.mktemp("gemma"), "gemma2", **GEMMA)
    world.experiment.write_text(named(EVERY))
    return world


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> PromptWorld:
    world = world_of(tmp_path_factory.mktemp("llama"), "llama")
    world.experiment.write_text(named(FROZEN))
    return world


@pytest.fixture(scope="session")
def done(gemma: PromptWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "reference"
    measure(gemma.experiment, folder)
    return folder


@pytest.fixture(scope="session")
def frozen(llama: PromptWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen") / "run"
    measure(llama.experiment, folder)
    return folder


def test_answers_beat_chance_and_training_helps(done: Path) -> None:
    assert_answers_are_learnt(done, "Gemma2ForCausalLM", ("standard", "linear", "attention"))


def test_every_group_of_the_run_holds_computed_again(done: Path) -> None:
    again(done)


def test_attention_is_all_attention_and_nothing_else(gemma: PromptWorld, done: Path) -> None:
    names, changed = changed_tensors(gemma, done, "attention")
    assert changed == {name for name in names if ".self_attn." in name}


def test_a_run_whose_lower_layers_are_frozen_holds_computed_again(llama: PromptWorld, frozen: Path) -> None:
    again(frozen)
    names, changed = changed_tensors(llama, frozen, "standard")
    assert changed == {name for name in names if name.startswith(("model.layers.1.", "model.layers.2.", "model.norm"))}
    with h5py.File(frozen / "results.h5") as file:
        space = "decoder's output at the last token"
        assert [one.decode() for one in file["tasks/space"][()]] == [space] * 3


def test_one_rank_gives_the_same(llama: PromptWorld, frozen: Path, tmp_path: Path) -> None:
    alone = numbers(measure(llama.experiment, tmp_path / "one", ranks=1))
    # A rank may hold kept outputs of frozen stages while it counts what a step holds.
    assert [name for name in differing(numbers(frozen / "results.h5"), alone) if not name.endswith("peak_memory")] == []


def test_a_device_gives_the_hosts_numbers(llama: PromptWorld, frozen: Path, tmp_path: Path) -> None:
    assert_close(numbers(frozen / "results.h5"), numbers(rehearsal.run(llama.experiment, tmp_path / "device")))


def test_checkpoints_are_models_that_transformers_loads(gemma: PromptWorld, done: Path) -> None:
    """Their next token behind the prompt gives the accuracy that the run has."""
    model = AutoModelForCausalLM.from_pretrained(done / "checkpoints" / "standard" / "topics",
                                                 attn_implementation="eager").eval()
    with h5py.File(gemma.task("topics")) as task, h5py.File(done / "results.h5") as file:
        rows = [row for row in file["single_task/standard/sample_index"][1] if row >= 0]
        ids, lengths, labels = (torch.tensor(task[f"test/{name}"][()])[rows].long()
                                for name in ("inputs", "lengths", "labels"))
        with torch.no_grad():
            logits = model(input_ids=ids).logits[torch.arange(len(ids)), lengths - 1]
        right = logits[:, torch.tensor(task["head/tokens"][()])].argmax(1) == labels
        assert float(right.double().mean()) == pytest.approx(file["single_task/standard/accuracy"][1], abs=1e-12)


def test_promptswith_masks_are_refused_in_one_line(llama: PromptWorld, tmp_path: Path) -> None:
    refused_in_one_line(llama, with_masks, "holds prompts; the model", tmp_path, ranks=1)


def _with_sequences(world: PromptWorld) -> None:
    with h5py.File(world.task("moods"), "r+") as file:
        words = file["head/tokens"][()]
        del file["head/tokens"]
        file["head"].attrs["kind"] = "sequences"
        file["head/tokens"] = words[:, None]
        file["head/lengths"] = [1] * len(words)


def test_whole_answers_beside_label_words_are_refused_in_one_line(llama: PromptWorld, tmp_path: Path) -> None:
    expected = "has no answers of whole sequences of tokens; other tasks of this run have"
    refused_in_one_line(llama, _with_sequences, expected, tmp_path, ranks=1)
