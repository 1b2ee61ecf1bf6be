# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Prompts from end to end: a masked language model that this test trains, label words as a part of θ or frozen, every
experiment, and all numbers again."""

import os
from pathlib import Path

import h5py
import pytest
import torch
from compare import differing, numbers
from launch import measure
from safetensors.torch import load_file
from text_worlds import FEW, LABELS, WORDS, PromptWorld, Source, again, named, pack_prompts, refused_in_one_line
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM
from world import PAPERS

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "it", "is", ".", "?",
              *(word for words in LABELS.values() for word in words), *WORDS]
LONGEST = 18
PROMPTS = {"pairs": "{text} ? {mask} . {second}"}
PLAIN = "{text} it is {mask} ."


def train(folder: Path) -> None:
    """Trains on prompts of other texts whose label word, or any other, is masked, for some seconds on one core."""
    torch.set_num_threads(1)  # more would wait for each other
    torch.manual_seed(11)
    number = {word: i for i, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(number, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.add_special_tokens(["[MASK]"])
    model = BertForMaskedLM(BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3,
        max_position_embeddings=LONGEST, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        initializer_range=0.1, attn_implementation="eager"))
    source, optimiser = Source(2), torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(250):
        ids = torch.zeros(48, LONGEST, dtype=torch.long)
        at = torch.zeros(48, dtype=torch.long)
        for i in range(48):
            name = list(LABELS)[i % len(LABELS)]
            label, first, second = source.row(name)
            filled = PROMPTS.get(name, PLAIN).format(text=first, second=second, mask="[MASK]")
            tokens = torch.tensor(tokenizer.encode(filled).ids[:LONGEST])
            place = int((tokens == number["[MASK]"]).nonzero()[0])
            tokens[place] = number[LABELS[name][label]]
            at[i] = place if i % 3 else int(source.rng.integers(1, len(tokens) - 1))
            ids[i, : len(tokens)] = tokens
        rows = torch.arange(48)
        wanted = ids[rows, at]
        used = (ids != 0).long()
        ids[rows, at] = number["[MASK]"]
        loss = cross_entropy(model(input_ids=ids, attention_mask=used).logits[rows, at], wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> PromptWorld:
    folder = tmp_path_factory.mktemp("prompts")
    train(folder / "model")
    pack_prompts(folder, PROMPTS, PLAIN, LONGEST)
    world = PromptWorld(folder)
    text = named(PAPERS)
    for regimes in ('"attention_posthoc", ', '"tau_jp_strict", "tau_jp_incremental",', ', "multitask_linear"'):
        assert text.count(regimes) == 1  # combinations that test_language.py has as well
        text = text.replace(regimes, "")
    world.experiment.write_text(text)
    return world


@pytest.fixture(scope="session")
def done(world: PromptWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that is measured of images, on 2 ranks."""
    folder = tmp_path_factory.mktemp("run") / "reference"
    measure(world.experiment, folder)
    return folder


@pytest.fixture(scope="session")
def frozen(world: PromptWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embeddings and the language model's head are frozen, as in task vector bases' language runs."""
    folder = tmp_path_factory.mktemp("frozen")
    few = FEW.replace('path = "model"', 'path = "model"\nlabel_words = "frozen"')
    few = few.replace('"linear"]', '"linear", "tau_jp"]\npenalty_weight = 0.05\npenalty_batch = 5\nfirst_stage = 1', 1)
    measure(world.elsewhere(folder / "few.toml", few), folder / "run")
    return folder / "run"


def test_prompts_alone_beat_chance_and_training_helps(done: Path) -> None:
    with h5py.File(done / "results.h5") as file:
        assert file["model"].attrs["architecture"] == "BertForMaskedLM"
        chance = 1 / file["tasks/classes"][()]
        before, after = (file[f"single_task/{name}/accuracy"][()] for name in ("pretrained", "standard"))
        assert (before > chance).all() and (before - chance).mean() > 0.15, before
        for regime in ("standard", "linear", "attention"):
            loss = file[f"training/{regime}/loss"][()]
            assert loss[:, -5:].mean() < loss[:, :5].mean()
        assert after.mean() > chance.mean() + 0.15


def test_the_space_stands_in_the_results(done: Path, frozen: Path) -> None:
    for run_folder, space in ((done, "logits"), (frozen, "word head's output at the mask")):
        with h5py.File(run_folder / "results.h5") as file:
            assert [stored.decode() for stored in file["tasks/space"][()]] == [space] * 3
            assert file["tau_jp/linear"].attrs["space"] == space
            if "representation" in file:
                assert file["representation/linear"].attrs["space"] == space


def test_every_group_of_the_run_holds_computed_again(done: Path) -> None:
    again(done)


def test_a_run_with_a_frozen_head_holds_computed_again(world: PromptWorld, frozen: Path) -> None:
    again(frozen)
    before = load_file(world.folder / "model" / "model.safetensors")
    after = load_file(frozen / "checkpoints" / "standard" / "moods" / "model.safetensors")
    changed = {name for name in after if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if ".layer." in name}


def test_four_ranks_give_the_same(frozen: Path, tmp_path: Path) -> None:
    different = differing(numbers(frozen / "results.h5"),
                          numbers(measure(frozen.parent / "few.toml", tmp_path / "run", ranks=4)))
    # A rank may hold kept outputs of frozen stages while it counts what a step holds.
    assert [name for name in different if not name.endswith("peak_memory")] == []


def test_checkpoints_are_models_that_transformers_loads(world: PromptWorld, done: Path) -> None:
    """Their logits at the mask, of whole texts, give the accuracy that the run has."""
    model = BertForMaskedLM.from_pretrained(done / "checkpoints" / "standard" / "topics").eval()
    with h5py.File(world.task("topics")) as task, h5py.File(done / "results.h5") as file:
        rows = [row for row in file["single_task/standard/sample_index"][1] if row >= 0]
        ids, lengths, mask, labels = (torch.tensor(task[f"test/{name}"][()])[rows].long()
                                      for name in ("inputs", "lengths", "mask", "labels"))
        used = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=used).logits[torch.arange(len(ids)), mask]
        right = logits[:, torch.tensor(task["head/tokens"][()])].argmax(1) == labels
        assert float(right.double().mean()) == pytest.approx(file["single_task/standard/accuracy"][1], abs=1e-12)


def _edit(world: PromptWorld, path: str, row: int, value: int) -> None:
    with h5py.File(world.task("moods"), "r+") as file:
        file[path][row] = value


def _without(world: PromptWorld, part: str) -> None:
    with h5py.File(world.task("moods"), "r+") as file:
        for split in ("train", "validation", "test"):
            del file[split][part]


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


REFUSED = {
    "texts without a mask": (lambda w: _without(w, "mask"), "holds texts without a mask; the model"),
    "a mask behind its text": (lambda w: _edit(w, "test/mask", 2, LONGEST - 1), "row 2 holds 17; its text has"),
    "another token": (lambda w: _edit(w, "train/mask", 5, 1), "row 5 leads to token "),
    "a word beyond the vocabulary": (lambda w: _edit(w, "head/tokens", 1, 999), "/head/tokens holds 999; the model"),
    "another's tokenizer": (lambda w: (w.folder / "model" / "tokenizer.json").write_text("{}"), "tokenizer.json has "),
    "a pipe as tokenizer": (lambda w: _pipe(w.folder / "model" / "tokenizer.json"), "tokenizer.json: cannot be read"),
    "an encoder": (lambda w: (w.folder / "model" / "modules.json").write_text("[]"), "is no masked language model"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_in_one_line(world: PromptWorld, tmp_path: Path, case: str) -> None:
    change, expected = REFUSED[case]
    refused_in_one_line(world, change, expected, tmp_path, ranks=1)
