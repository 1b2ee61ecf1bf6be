# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""T5's whole answers from end to end: a small one that this test trains on them, classes scored by sequences of
several tokens that begin alike, a task that is answered by numbers, all numbers again."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from answer_worlds import (
    LONGEST,
    TEXTS,
    AnswersWorld,
    assert_labels_are_told_apart,
    packed_world,
    padded,
    prompts_and_answers,
    tokenizer,
    with_texts,
)
from compare import differing, numbers
from launch import measure, run
from scipy.stats import spearmanr
from text_worlds import FEW, Source, again, refused_in_one_line
from tokenizers import Tokenizer
from transformers import T5Config, T5ForConditionalGeneration


def train(folder: Path) -> None:
    """Trains on the whole answers to prompts of other texts, for some seconds on one core."""
    torch.set_num_threads(1)
    torch.manual_seed(11)
    known = tokenizer()
    model = T5ForConditionalGeneration(T5Config(
        vocab_size=known.get_vocab_size(), d_model=24, d_kv=7, d_ff=40, num_layers=2, num_decoder_layers=2, num_heads=3,
        feed_forward_proj="gated-gelu", relative_attention_num_buckets=8, relative_attention_max_distance=10,
        dropout_rate=0.0, decoder_start_token_id=0, attn_implementation="eager"))
    source, optimiser = Source(2), torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(250):
        prompts, said = zip(*prompts_and_answers(source), strict=True)
        ids = padded([known.encode(prompt).ids[:LONGEST] for prompt in prompts], 0)
        labels = padded([known.encode(answer).ids for answer in said], -100)
        loss = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels, use_cache=False).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save_pretrained(folder)
    known.save(str(folder / "tokenizer.json"))


# Up to the decoder's first layer, its places' states and its encoder's output are kept; a joint regime, a penalty.
FROZEN = FEW.split("[smoothness]")[0].replace('path = "model"', 'path = "model"\nlabel_words = "frozen"').replace(
    "steps = 25", "steps = 8\nfirst_stage = 4", 1).replace(
    '["standard", "linear"]', '["standard", "tau_jp", "multitask_linear"]').replace("batch = 16\n", "batch = 12\n", 1)
@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> AnswersWorld:
    folder = tmp_path_factory.mktemp("t5_answers")
    train(folder / "model")
    return packed_world(folder)


@pytest.fixture(scope="session")
def done(world: AnswersWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "reference"
    measure(world.experiment, folder)
    return folder


@pytest.fixture(scope="session")
def texts(world: AnswersWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    measure(world.texts(folder / "texts.toml"), folder / "run")
    return folder / "run"


def test_labels_that_begin_alike_are_told_apart_and_training_helps(done: Path) -> None:
    assert_labels_are_told_apart(done / "results.h5")


def test_every_group_of_the_run_holds_computed_again(done: Path) -> None:
    again(done)


def test_the_loss_is_that_of_transformers(world: AnswersWorld, done: Path) -> None:
    """The loss of a task's own model is compared over the points that the run measured."""
    model = T5ForConditionalGeneration.from_pretrained(done / "checkpoints" / "standard" / "topics").eval()
    with h5py.File(world.task("topics")) as task, h5py.File(done / "results.h5") as file:
        rows = [row for row in file["single_task/standard/sample_index"][1] if row >= 0]
        ids, lengths, labels = (torch.tensor(task[f"test/{name}"][()])[rows].long()
                                for name in ("inputs", "lengths", "labels"))
        wanted = torch.tensor(task["head/tokens"][()])[labels]
        wanted[torch.arange(wanted.shape[1]) >= torch.tensor(task["head/lengths"][()])[labels][:, None]] = -100
        used = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        with torch.no_grad():
            loss = float(model(input_ids=ids, attention_mask=used, labels=wanted).loss)
        assert loss == pytest.approx(file["single_task/standard/loss"][1], rel=1e-4)


def test_frozen_rows_stages_joint_training_and_penalties_hold_computed_again(
        world: AnswersWorld, tmp_path: Path) -> None:
    few = world.elsewhere(tmp_path / "few.toml", FROZEN)
    first = measure(few, tmp_path / "run")
    again(tmp_path / "run")
    assert differing(numbers(first), numbers(measure(few, tmp_path / "one", ranks=1))) == []
    with h5py.File(first) as file:
        assert {space.decode() for space in file["tasks/space"][()]} == {
            "decoder's output at each token of the answers"}


def test_texts_are_decoded_and_measured_by_their_own_metric(world: AnswersWorld, texts: Path, tmp_path: Path) -> None:
    with h5py.File(texts / "results.h5") as file, h5py.File(world.task("stsb")) as task:
        assert [metric.decode() for metric in file["tasks/metric"][()]] == ["accuracy", "spearman"]
        node = file["generation/standard"]
        assert np.isnan(node["value"][0]) and node["value"][1] == node["spearman"][1] > 0.3
        assert file["generation_sum/linear/value"].shape == (2, 2) and file["generation/pretrained/value"][1] > 0.2
        model = T5ForConditionalGeneration.from_pretrained(texts / "checkpoints" / "standard" / "stsb").eval()
        known = Tokenizer.from_file(str(world.folder / "model" / "tokenizer.json"))
        rows = [row for row in node["sample_index"][1] if row >= 0]
        ids, lengths = (torch.tensor(task[f"test/{name}"][()])[rows].long() for name in ("inputs", "lengths"))
        used = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        said = model.generate(input_ids=ids, attention_mask=used, do_sample=False, num_beams=1, max_new_tokens=6)
        spoken = [known.decode(row.tolist()).replace(" ", "").replace("\u2581", "") for row in said]

        def number(text: str) -> float:
            try:
                return float(text)
            except ValueError:
                return 0.0

        right = [float(task["test/references"][row]) for row in rows]
        assert node["spearman"][1] == pytest.approx(spearmanr([number(text) for text in spoken], right)[0], abs=1e-9)
        # What is right by teacher forcing is what is said.
        accuracy = file["single_task/standard/accuracy"][1]
        assert 0 <= accuracy <= 1 and node["exact_match"][1] > 0
    again(texts)
    results = measure(world.texts(tmp_path / "texts.toml"), tmp_path / "one", ranks=1)
    assert differing(numbers(texts / "results.h5"), numbers(results)) == []


def test_what_needs_classes_or_texts_is_refused_in_one_line(world: AnswersWorld, tmp_path: Path) -> None:
    cases = {
        "[disentanglement]\n": "[disentanglement] compares classes; the task stsb is answered by texts",
        "[ntk]\npoints = 2\n": "[ntk] compares classes; the task stsb is answered by texts",
        '[merging]\nmethods = ["fisher"]\n': "[merging.fisher] compares classes",
    }
    plain = TEXTS.split("[generation]")[0]
    for section, expected in cases.items():
        experiment = world.texts(tmp_path / "refused.toml", plain + section)
        refused = run(1, "run", experiment, "--run-dir", tmp_path / "run")
        assert refused.returncode == 2 and refused.stderr.count("\n") == 1, refused.stderr
        assert expected in refused.stderr, refused.stderr
    experiment = world.elsewhere(tmp_path / "refused.toml", plain + "[generation]\n")
    refused = run(1, "run", experiment, "--run-dir", tmp_path / "run")
    assert refused.returncode == 2 and "has no task that is answered by texts" in refused.stderr, refused.stderr


def test_a_dry_run_counts_its_work_without_the_model(world: AnswersWorld, tmp_path: Path) -> None:
    for experiment in (world.experiment, world.texts(tmp_path / "texts.toml")):
        done = run(1, "run", experiment, "--dry-run", "--set", "model.path=/nowhere")
        assert done.returncode == 2 and "inputs are missing or wrong" in done.stderr, done.stderr
        assert "work is counted as for CLIP ViT-B/32" in done.stdout and "finetune/standard" in done.stdout


def _spoilt(world: AnswersWorld, name: str, path: str, change: object) -> None:
    with h5py.File(world.task(name), "r+") as file:
        values = file[path][()]
        values[tuple(0 for _ in values.shape)] = change
        del file[path]
        file[path] = values


@pytest.mark.parametrize(("name", "path", "value", "expected"), [
    ("moods", "head/tokens", 9999, "/head/tokens holds token 9999"),
    ("moods", "head/lengths", 0, "/head/lengths: row 0 holds 0; expected 1"),
    ("stsb", "train/targets", 9999, "/train/targets: holds token 9999, and /head/pieces has "),
    ("stsb", "test/target_lengths", 7, "/test/target_lengths: row 0 holds 7; expected 1 … 6"),
])
def test_wrong_answers_are_refused_in_one_line(
        world: AnswersWorld, tmp_path: Path, name: str, path: str, value: int, expected: str) -> None:
    def change(copy: AnswersWorld) -> None:
        _spoilt(copy, name, path, value)
        copy.experiment.write_text(with_texts(TEXTS))

    refused_in_one_line(world, change, expected, tmp_path, ranks=1)


def test_answers_that_no_host_attends_to_are_refused_before_anything_is_counted(
        world: AnswersWorld, tmp_path: Path) -> None:
    """Zeros take little room, so that a file of some kilobytes has as many places as it likes."""
    places = 1_000_000

    def change(copy: AnswersWorld) -> None:
        with h5py.File(copy.task("stsb"), "r+") as file:
            rows = len(file["train/targets"])
            del file["train/targets"]
            zeros = np.zeros((rows, places), "i4")
            file.create_dataset("train/targets", data=zeros, chunks=(rows, 1 << 14), compression="gzip")
        copy.experiment.write_text(with_texts(TEXTS))

    refused_in_one_line(world, change, f"answers of {places} tokens, whose attention takes ", tmp_path, ranks=1)
