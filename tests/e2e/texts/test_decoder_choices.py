# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Rows with choices of their own from end to end: a small Llama that this test trains to go on as contexts begin, the
harness' sets as folders, accuracies as lm-evaluation-harness defines acc and acc_norm, all numbers again."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import rehearsal
import torch
from answer_worlds import shorten, tokenizer, train_decoder
from compare import assert_close, differing, numbers
from launch import complaint, measure, run
from text_worlds import LABELS, PromptWorld, Source, again, pack, refused_in_one_line
from transformers import AutoModelForCausalLM, T5Config, T5ForConditionalGeneration
from world import EXPERIMENT

TASKS = ["arc_easy", "piqa", "winogrande"]
ROWS = {"train": 70, "validation": 40, "test": 40}


def words(source: Source, label: int, count: int) -> str:
    """Words that a class prefers."""
    return " ".join(source.rng.choice(source.preferred["topics"][label], count))


def row(name: str, source: Source) -> dict[str, Any]:
    """What goes on rightly has the words of the context's class, or of the name in the gap."""
    label, rng = int(source.rng.integers(4)), source.rng
    others = [other for other in rng.permutation(4) if other != label]
    context = words(source, label, int(rng.integers(2, 7)))
    if name == "winogrande":
        names, right = [LABELS["topics"][label], LABELS["topics"][others[0]]], int(rng.integers(2))
        return {"sentence": f"{words(source, others[1], 2)} it is _ {words(source, label, int(rng.integers(1, 3)))}",
                "option1": names[right], "option2": names[1 - right], "answer": str(1 + right)}
    classes = [label, *others[: 1 if name == "piqa" else int(rng.integers(2, 4))]]
    order = rng.permutation(len(classes))
    texts = [words(source, classes[at], int(rng.integers(1, 4))) for at in order]
    right = int(np.flatnonzero(order == 0)[0])
    if name == "piqa":
        return {"goal": context, "sol1": texts[0], "sol2": texts[1], "label": right}
    names = list("ABCD" if rng.random() < 0.5 else "1234")[: len(texts)]
    return {"question": context, "choices": {"text": texts, "label": names}, "answerKey": names[right]}


def said(name: str, asked: dict[str, Any]) -> tuple[str, str]:
    """What is learnt, and what goes on from it."""
    if name == "winogrande":
        before, _, behind = asked["sentence"].partition("_")
        return before + asked[f"option{asked['answer']}"], behind.strip()
    if name == "piqa":
        return f"Question: {asked['goal']}\nAnswer:", asked[f"sol{1 + asked['label']}"]
    held = asked["choices"]
    return f"Question: {asked['question']}\nAnswer:", held["text"][held["label"].index(asked["answerKey"])]


def said_by_rows(source: Source) -> Iterator[tuple[str, str]]:
    for i in range(48):
        yield said(TASKS[i % 3], row(TASKS[i % 3], source))


def named(text: str) -> str:
    text = text.replace('["stripes", "blobs", "corners"]', json.dumps(TASKS)).replace("linear_points = 24\n", "")
    text = text.replace('["standard", "linear"]', '["standard"]')
    return text.replace("[finetune.linear]\nlearning_rate = 2e-3\n", "")


EVERY = EXPERIMENT.split("[stitching]")[0].replace("steps = 25", "steps = 20") + EXPERIMENT[
    EXPERIMENT.index("[barrier]"):EXPERIMENT.index("[ntk]")] + """
[addition]
alpha = [0.0, 0.5, 1.0]

[cost]
steps = 2

[merging]
methods = ["fisher", "regmean", "adamerging", "localize_stitch"]
[merging.fisher]
points = 8
[merging.regmean]
points = 10
[merging.adamerging]
steps = 3
batch = 8
[merging.localize_stitch]
steps = 2
points_per_class = 4
"""
# What the frozen stages gave is kept, answers in line; frozen rows of the vocabulary.
FROZEN = EXPERIMENT.split("[averages]")[0].replace("steps = 25", "steps = 6\nfirst_stage = 2", 1).replace(
    'path = "model"', 'path = "model"\nlabel_words = "frozen"', 1)


class ChoicesWorld(PromptWorld):
    def elsewhere(self, path: Path, text: str) -> Path:
        super().elsewhere(path, named(text))
        return path


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> ChoicesWorld:
    folder, source = tmp_path_factory.mktemp("choices"), Source(3)
    train_decoder(folder / "model", 120, said_by_rows)
    for name in TASKS:
        (folder / "hub" / name).mkdir(parents=True)
        for split, count in ROWS.items():
            lines = [json.dumps(row(name, source)) for _ in range(count)]
            if split != "test" or name == "arc_easy":  # of the others the hub's validation is our test
                (folder / "hub" / name / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    pack([["text-tasks", "--only", ",".join(TASKS), "--data-location", f"{folder}/hub", "--model", f"{folder}/model",
           "--out", f"{folder}/data", "--tokens", "48", "--answers", "own", "--score", "acc_norm"]])
    world = ChoicesWorld(folder)
    world.experiment.write_text(named(EVERY))
    return world


@pytest.fixture(scope="session")
def done(world: ChoicesWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "reference"
    measure(world.experiment, folder)
    return folder


def test_rows_are_answered_better_than_by_chance_and_training_helps(done: Path) -> None:
    with h5py.File(done / "results.h5") as file:
        assert file["tasks/classes"][()].tolist() == [4, 2, 2]
        assert {each.decode() for each in file["tasks/space"][()]} == {"log-probabilities of each row's choices"}
        chance = 1 / file["tasks/classes"][()]
        before, after = (file[f"single_task/{name}/accuracy"][()] for name in ("pretrained", "standard"))
        assert ((before - chance) > 0.1).all(), before
        assert after.mean() > before.mean() - 0.05
        loss = file["training/standard/loss"][()]
        assert loss[:, -5:].mean() < loss[:, :5].mean()


def test_every_group_of_the_run_holds_computed_again(done: Path) -> None:
    again(done)


def test_accuracy_is_acc_norm_of_one_pass_a_choice(world: ChoicesWorld, done: Path) -> None:
    """As lm-evaluation-harness scores multiple choice: log p of what goes on from the context, by its letters."""
    for t, name in enumerate(TASKS):
        model = AutoModelForCausalLM.from_pretrained(done / "checkpoints" / "standard" / name).eval()
        right, losses, count = [], 0.0, 0
        with h5py.File(world.task(name)) as task, h5py.File(done / "results.h5") as file:
            test = task["test"]
            assert (test["choice_lengths"][()] == 0).any() == (name == "arc_easy")  # which never win
            for at in [at for at in file["single_task/standard/sample_index"][t] if at >= 0]:
                scores = []
                for c, length in enumerate(test["choice_lengths"][at]):
                    if length == 0:
                        continue
                    given = int(test["choice_given"][at, c]) if "choice_given" in test else 0
                    start = [*test["inputs"][at][:test["lengths"][at]].tolist()]
                    ids = torch.tensor([[*start, *test["choices"][at, c][:length].tolist()]])
                    with torch.no_grad():
                        log_p = model(input_ids=ids).logits[0].log_softmax(1)
                    whole = sum(float(log_p[i - 1, ids[0, i]]) for i in range(len(start) + given, ids.shape[1]))
                    scores.append(whole / test["choice_letters"][at, c])
                    if c == test["labels"][at]:
                        losses, count = losses - whole, count + int(length) - given
                right.append(int(np.argmax(scores)) == int(test["labels"][at]))
            assert np.mean(right) == pytest.approx(file["single_task/standard/accuracy"][t], abs=1e-12)
            assert losses / count == pytest.approx(file["single_task/standard/loss"][t], rel=1e-5)


def test_ranks_agree_and_frozen_rows_and_stages_hold_again_also_on_a_device(
        world: ChoicesWorld, tmp_path: Path) -> None:
    few = world.elsewhere(tmp_path / "few.toml", FROZEN)
    first = measure(few, tmp_path / "run")
    again(tmp_path / "run")
    assert differing(numbers(first), numbers(measure(few, tmp_path / "ranks", ranks=1))) == []
    assert_close(numbers(first), numbers(rehearsal.run(few, tmp_path / "device")))


def test_a_t5_scores_choices_behind_its_start(world: ChoicesWorld, tmp_path: Path) -> None:
    torch.manual_seed(3)
    known, folder = tokenizer(), tmp_path / "model"
    T5ForConditionalGeneration(T5Config(
        vocab_size=known.get_vocab_size(), d_model=24, d_kv=7, d_ff=40, num_layers=2, num_decoder_layers=2, num_heads=3,
        dropout_rate=0.0, decoder_start_token_id=0)).save_pretrained(folder)
    known.save(str(folder / "tokenizer.json"))
    pack([["text-tasks", "--only", "arc_easy,piqa", "--data-location", f"{world.folder}/hub", "--model", str(folder),
           "--out", f"{tmp_path}/data", "--tokens", "48", "--answers", "own"]])
    text = named(EXPERIMENT.split("[averages]")[0]).replace(', "winogrande"', "").replace("steps = 25", "steps = 6")
    (tmp_path / "t5.toml").write_text(text)
    measure(tmp_path / "t5.toml", tmp_path / "run", ranks=1)
    again(tmp_path / "run")


def _edit(world: ChoicesWorld, change: Callable[[h5py.File], None]) -> None:
    with h5py.File(world.task("arc_easy"), "r+") as file:
        change(file)


def _set(name: str, place: tuple[int, ...], value: int) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        file[name][place] = value
    return change


def _without(name: str) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[name]
    return change


def _right_is_absent(file: h5py.File) -> None:
    file["test/choice_lengths"][0, file["test/labels"][0]] = 0


def _alone(file: h5py.File) -> None:
    file["test/choice_lengths"][0] = 0
    file["test/choice_lengths"][0, file["test/labels"][0]] = 1


@pytest.mark.parametrize(("change", "expected"), [
    (_set("train/labels", (0,), 4), "/train/labels: row 0 holds 4; expected 0 … 3"),
    (_right_is_absent, "/test/choice_lengths: row 0 has no tokens of its right choice"),
    (_alone, "/test/choice_lengths: row 0 has fewer than two choices"),
    (_set("test/choice_lengths", (0, 0), 99), "/test/choice_lengths: row 0 holds 99; expected 0 … "),
    (_set("test/choice_letters", (0, 0), 0), "/test/choice_letters: row 0 holds 0; expected 1 … "),
    (_set("test/choices", (0, 0, 0), 99999), "/test/choices holds token 99999; the model "),
    (_set("test/choices", (0, 0, 0), -1), "/test/choices: row 0 holds -1; expected 0 … "),
    (_without("test/choice_letters"), "has choice_letters where /train has none, or the other way round"),
    (_without("train/choices"), "/train/choices"),
    (_without("class_names"), "/class_names"),
])
def test_wrong_choices_are_refused_in_one_line(
        world: ChoicesWorld, tmp_path: Path, change: Callable[[h5py.File], None], expected: str) -> None:
    refused_in_one_line(world, lambda copy: _edit(copy, change), expected, tmp_path, ranks=1)


@pytest.mark.parametrize(("more", "expected"), [
    (("--set", 'finetune.regimes=["standard", "linear"]'), "linear is linear, and there are rows with choices"),
    (("--set", "ntk.points=4"), "takes each task's logits on others' points; the rows of the task arc_easy have"),
])
def test_what_has_no_meaning_is_refused_in_one_line(
        world: ChoicesWorld, tmp_path: Path, more: tuple[str, ...], expected: str) -> None:
    refused = run(1, "run", world.experiment, "--run-dir", tmp_path / "run", *more)
    complaint(refused, expected)
    assert not (tmp_path / "run").exists()


def test_texts_without_room_for_their_choices_are_refused_in_one_line(world: ChoicesWorld, tmp_path: Path) -> None:
    refused_in_one_line(world, lambda copy: shorten(copy, 10), "of an answer behind it; the model", tmp_path, ranks=1)
