# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""T5 from end to end: a small one that this test trains, its answers as a part of θ or frozen, all numbers again."""

from pathlib import Path

import h5py
import pytest
import torch
from compare import differing, numbers
from launch import measure
from taugrid_analysis.papers import figure
from taugrid_analysis.run.opened import Run
from text_worlds import (
    FEW,
    LABELS,
    WORDS,
    PromptWorld,
    again,
    assert_answers_are_learnt,
    changed_tensors,
    named,
    pack_prompts,
    refused_in_one_line,
    train_on_prompts,
    with_masks,
    word_tokenizer,
)
from tokenizers import processors
from torch import Tensor
from transformers import T5Config, T5ForConditionalGeneration
from world import EXPERIMENT

VOCABULARY = ["<pad>", "</s>", "<unk>", "it", "is", ".", "?", *(word for words in LABELS.values() for word in words),
              *WORDS]
LONGEST = 18
PROMPTS = {"pairs": "{text} ? {second} ."}
PLAIN = "{text} . it is"


def train(folder: Path) -> None:
    """Trains on prompts of other texts, for some seconds on one core."""
    torch.set_num_threads(1)  # more would wait for each other
    torch.manual_seed(11)
    tokenizer = word_tokenizer(VOCABULARY)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    model = T5ForConditionalGeneration(T5Config(
        vocab_size=len(VOCABULARY), d_model=24, d_kv=7, d_ff=40, num_layers=2, num_decoder_layers=2, num_heads=3,
        feed_forward_proj="gated-gelu", relative_attention_num_buckets=8, relative_attention_max_distance=10,
        dropout_rate=0.0, decoder_start_token_id=0, attn_implementation="eager"))

    def answer(ids: Tensor, _: Tensor) -> Tensor:
        start = torch.zeros(len(ids), 1, dtype=torch.long)
        mask = (ids != 0).long()
        return model(input_ids=ids, attention_mask=mask, decoder_input_ids=start, use_cache=False).logits[:, 0]

    train_on_prompts(model, tokenizer, PROMPTS, PLAIN, LONGEST, answer, folder)


EVERY = EXPERIMENT.replace('["standard", "linear"]', '["standard", "linear", "attention", "attention+bias"]').replace(
    '"corners"]', '"corners"]\ncontrol = "plaids"') + """
[cost]
steps = 3

[merging]
methods = ["fisher", "regmean"]
[merging.fisher]
points = 20
[merging.regmean]
points = 20
"""
# Up to the decoder's first layer, its self-attention's first token and its encoder's output are kept.
FROZEN = FEW.replace('path = "model"', 'path = "model"\nlabel_words = "frozen"').replace(
    "steps = 25", "steps = 12\nfirst_stage = 4", 1)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> PromptWorld:
    folder = tmp_path_factory.mktemp("t5")
    train(folder / "model")
    pack_prompts(folder, PROMPTS, PLAIN, LONGEST, more=("--answers", "first"))
    world = PromptWorld(folder)
    world.experiment.write_text(named(EVERY))
    return world


@pytest.fixture(scope="session")
def done(world: PromptWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "reference"
    measure(world.experiment, folder)
    return folder


@pytest.fixture(scope="session")
def frozen(world: PromptWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen")
    measure(world.elsewhere(folder / "few.toml", FROZEN), folder / "run")
    return folder / "run"


def test_answers_beat_chance_and_training_helps(done: Path) -> None:
    assert_answers_are_learnt(done, "T5ForConditionalGeneration", ("standard", "linear", "attention"))
    with h5py.File(done / "results.h5") as file:
        assert (abs(file["linearity/standard/cosine"][..., 0]) <= 1 + 1e-6).all()


def test_every_group_of_the_run_holds_computed_again(done: Path) -> None:
    again(done)


@pytest.mark.parametrize("number", [21, 24])
def test_layers_of_sums_and_negations_are_drawn(done: Path, number: int) -> None:
    """The cross-task linearity paper's figures of T5: every layer of its encoder and its decoder."""
    plate = next(plate for plate in figure.of_paper("cross_task_linearity") if plate.number == number)
    with Run(done / "results.h5") as run:
        picture, lacking = figure.drawn(plate, [run])
        assert picture is not None and lacking == []
        shown = [axes for axes in picture.axes if axes.lines and axes.get_xlabel() == "layer"]
        assert [axes.lines[0].get_xdata().tolist() for axes in shown] == [[1, 2, 3, 4]] * 3
        begins = [line.get_xdata()[0] for line in shown[0].lines if line.get_label() == "decoder"]
        assert begins == [2.5] and run.results.attributes("linearity/standard")["first_decoder_layer"] == 3
        kind = "addition" if number == 21 else "negation"
        names = run.results.tasks if number == 24 else [run.results.pair_name(p) for p in range(3)]
        assert {axes.get_title() for axes in shown} == {
            f"{name}, {'added' if kind == 'addition' else 'negated'}" for name in names}
        for axes in shown:
            row = names.index(axes.get_title().split(",")[0])
            cosine = run.data(f"layer_{kind}", "standard").cosine.to_numpy()[row, 1:-1, 0, 0]
            assert axes.lines[0].get_ydata() == pytest.approx(1 - cosine, abs=1e-9)


def test_attention_is_all_attention_and_nothing_else(world: PromptWorld, done: Path) -> None:
    # Queries and keys of the decoder's one token have no gradient; AdamW's decay moves them all the same.
    names, changed = changed_tensors(world, done, "attention")
    attention = {name for name in names if "Attention." in name and "relative_attention_bias" not in name}
    assert changed == attention
    _, with_biases = changed_tensors(world, done, "attention+bias")
    assert {name.split(".")[-2] for name in with_biases - attention} == {"relative_attention_bias"}


def test_a_run_whose_encoder_is_frozen_holds_computed_again(world: PromptWorld, frozen: Path) -> None:
    again(frozen)
    names, changed = changed_tensors(world, frozen, "standard")
    assert changed == {name for name in names if name.startswith(("decoder.block.1.", "decoder.final"))}
    with h5py.File(frozen / "results.h5") as file:
        space = "decoder's output at the first step"
        assert [stored.decode() for stored in file["tasks/space"][()]] == [space] * 3


def test_one_rank_gives_the_same(world: PromptWorld, frozen: Path, tmp_path: Path) -> None:
    few = world.elsewhere(tmp_path / "few.toml", FROZEN)
    alone = numbers(measure(few, tmp_path / "one", ranks=1))
    # A rank may hold kept outputs of frozen stages while it counts what a step holds.
    assert [name for name in differing(numbers(frozen / "results.h5"), alone) if not name.endswith("peak_memory")] == []


def test_checkpoints_are_models_that_transformers_loads(world: PromptWorld, done: Path) -> None:
    """Their first generated step gives the accuracy that the run has."""
    model = T5ForConditionalGeneration.from_pretrained(done / "checkpoints" / "standard" / "topics").eval()
    with h5py.File(world.task("topics")) as task, h5py.File(done / "results.h5") as file:
        rows = [row for row in file["single_task/standard/sample_index"][1] if row >= 0]
        ids, lengths, labels = (torch.tensor(task[f"test/{name}"][()])[rows].long()
                                for name in ("inputs", "lengths", "labels"))
        used = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        with torch.no_grad():
            start = torch.zeros(len(ids), 1, dtype=torch.long)
            logits = model(input_ids=ids, attention_mask=used, decoder_input_ids=start).logits[:, 0]
        right = logits[:, torch.tensor(task["head/tokens"][()])].argmax(1) == labels
        assert float(right.double().mean()) == pytest.approx(file["single_task/standard/accuracy"][1], abs=1e-12)


def test_promptswith_masks_are_refused_in_one_line(world: PromptWorld, tmp_path: Path) -> None:
    refused_in_one_line(world, with_masks, "holds prompts; the model", tmp_path, ranks=1)
