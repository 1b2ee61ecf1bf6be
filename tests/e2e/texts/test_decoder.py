# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Decoders from end to end: a small Gemma 2, a Llama and a GPT-2 that this test trains, read at a prompt's last token,
all numbers again by transformers, and on the rehearsal device."""

from pathlib import Path

import h5py
import pytest
import rehearsal
import torch
from compare import assert_close, differing, numbers
from decoder_worlds import gemma_world, gpt2_world, llama_world
from launch import measure
from peft import PeftModel
from text_worlds import PromptWorld, again, assert_answers_are_learnt, changed_tensors, refused_in_one_line, with_masks
from transformers import AutoModelForCausalLM


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> PromptWorld:
    return gemma_world(tmp_path_factory.mktemp("gemma"))


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> PromptWorld:
    return gpt2_world(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> PromptWorld:
    return llama_world(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def done(gemma: PromptWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "reference"
    measure(gemma.experiment, folder)
    return folder


@pytest.fixture(scope="session")
def transposed(gpt2: PromptWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transposed") / "run"
    measure(gpt2.experiment, folder)
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


def test_matrices_that_files_hold_transposed(gpt2: PromptWorld, transposed: Path, tmp_path: Path) -> None:
    """In every group, by methods that take data, and where vectors are read from files a part at a time."""
    assert_answers_are_learnt(transposed, "GPT2LMHeadModel", ("standard", "linear", "attention"))
    again(transposed)
    names, changed = changed_tensors(gpt2, transposed, "attention")
    assert changed == {name for name in names if ".attn.c_" in name and name.endswith("weight")}
    parts = numbers(measure(gpt2.experiment, tmp_path / "parts", "--set", "run.memory=1e-5"))
    assert_close(numbers(transposed / "results.h5"), parts)


def test_an_adapter_of_transposed_layers_is_what_peft_loads(transposed: Path, gpt2: PromptWorld) -> None:
    folder = transposed / "checkpoints" / "lora" / "topics"
    base = AutoModelForCausalLM.from_pretrained(gpt2.folder / "model")
    before = {name: values.clone() for name, values in base.state_dict().items()}
    adapted = PeftModel.from_pretrained(base, folder / "adapter").merge_and_unload().state_dict()
    whole = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    assert any(not torch.equal(values, before[name]) for name, values in whole.items())
    assert all(torch.allclose(adapted[name], values, atol=1e-6) for name, values in whole.items())


def test_a_run_whose_lower_layers_are_frozen_holds_computed_again(llama: PromptWorld, frozen: Path) -> None:
    again(frozen)
    names, changed = changed_tensors(llama, frozen, "standard")
    assert changed == {name for name in names if name.startswith(("model.layers.1.", "model.layers.2.", "model.norm"))}
    with h5py.File(frozen / "results.h5") as file:
        space = "decoder's output at the last token"
        assert [stored.decode() for stored in file["tasks/space"][()]] == [space] * 3


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
