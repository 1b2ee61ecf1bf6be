# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A decoder's whole answers from end to end: a small Llama that this test trains on them behind prompts, classes scored
by log p of several tokens, a task that is answered by numbers, all numbers again by transformers."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import rehearsal
import torch
from answer_worlds import (
    TEXTS,
    AnswersWorld,
    assert_labels_are_told_apart,
    packed_world,
    prompts_and_answers,
    shorten,
    train_decoder,
)
from compare import assert_close, differing, numbers
from launch import measure
from text_worlds import FEW, again, refused_in_one_line
from transformers import AutoModelForCausalLM
from world import EXPERIMENT

END = 1

# Answers stand in line in every stage, those below the first that is trained among them; a linear regime, a penalty.
FROZEN = FEW.split("[smoothness]")[0].replace("steps = 25", "steps = 8\nfirst_stage = 2", 1).replace(
    '["standard", "linear"]', '["standard", "tau_jp", "multitask_linear"]').replace("batch = 16\n", "batch = 12\n", 1)
FROZEN += EXPERIMENT[EXPERIMENT.index("[linearity]"):EXPERIMENT.index("[averages]")]
# Two tasks, one of them answered by numbers, in regimes that run by stages.
BY_STAGES = TEXTS.split("[smoothness]")[0].replace("steps = 12", "steps = 6").replace(
    '["standard", "linear"]', '["standard", "posthoc"]').replace("[finetune.linear]\nlearning_rate = 2e-3\n", "")


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> AnswersWorld:
    folder = tmp_path_factory.mktemp("decoder_answers")
    train_decoder(folder / "model", 300, prompts_and_answers, [END])
    world = packed_world(folder, "--answers", "whole", "--score", "acc_norm")
    text = world.experiment.read_text().replace('["fisher"]', '["fisher", "regmean"]')
    world.experiment.write_text(text + "[merging.regmean]\npoints = 10\n")
    return world


@pytest.fixture(scope="session")
def done(world: AnswersWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "reference"
    measure(world.experiment, folder)
    return folder


def test_labels_that_begin_alike_are_told_apart_and_training_helps(done: Path) -> None:
    assert_labels_are_told_apart(done / "results.h5")


def test_every_group_of_the_run_holds_computed_again(done: Path) -> None:
    again(done)


def test_accuracy_is_acc_norm_of_one_pass_an_answer(world: AnswersWorld, done: Path) -> None:
    """As lm-evaluation-harness scores multiple choice: log p of the answer behind the prompt, by its letters."""
    model = AutoModelForCausalLM.from_pretrained(done / "checkpoints" / "standard" / "topics").eval()
    with h5py.File(world.task("topics")) as task, h5py.File(done / "results.h5") as file:
        rows = [row for row in file["single_task/standard/sample_index"][1] if row >= 0]
        words = list(task["head"].attrs["words"])
        answers = [row[:length] for row, length in zip(task["head/tokens"][()], task["head/lengths"][()], strict=True)]
        right = []
        for row in rows:
            prompt = task["test/inputs"][row][:task["test/lengths"][row]].tolist()
            scores = []
            for answer, word in zip(answers, words, strict=True):
                ids = torch.tensor([[*prompt, *answer.tolist()]])
                with torch.no_grad():
                    log_p = model(input_ids=ids).logits[0].log_softmax(1)
                places = range(len(prompt) - 1, ids.shape[1] - 1)
                scores.append(sum(float(log_p[at, ids[0, at + 1]]) for at in places) / len(word))
            right.append(int(np.argmax(scores)) == int(task["test/labels"][row]))
        assert np.mean(right) == pytest.approx(file["single_task/standard/accuracy"][1], abs=1e-12)


def test_frozen_stages_hold_computed_again_and_ranks_and_a_device_agree(world: AnswersWorld, tmp_path: Path) -> None:
    few = world.elsewhere(tmp_path / "few.toml", FROZEN)
    first = measure(few, tmp_path / "run")
    again(tmp_path / "run")
    assert differing(numbers(first), numbers(measure(few, tmp_path / "one", ranks=1))) == []
    assert_close(numbers(first), numbers(rehearsal.run(few, tmp_path / "device")))


def test_texts_are_said_as_transformers_says_them(world: AnswersWorld, tmp_path: Path) -> None:
    results = measure(world.texts(tmp_path / "texts.toml"), tmp_path / "run")
    again(tmp_path / "run")
    with h5py.File(results) as file, h5py.File(world.task("stsb")) as task:
        node = file["generation/standard"]
        assert node["value"][1] == node["spearman"][1] > 0.3
        model = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "checkpoints" / "standard" / "stsb").eval()
        rows = [row for row in node["sample_index"][1] if row >= 0]
        for row, tokens in zip(rows, node["tokens"][1], strict=False):
            prompt = torch.tensor([task["test/inputs"][row][:task["test/lengths"][row]].tolist()])
            said = model.generate(input_ids=prompt, do_sample=False, max_new_tokens=6)[0, prompt.shape[1]:].tolist()
            assert tokens[:len(said)].tolist() == said and (tokens[len(said):] < 0).all()


def test_texts_and_answers_are_those_of_whole_models_by_stages(world: AnswersWorld, tmp_path: Path) -> None:
    """The models were trained before. Ranks that share out points leave the loop over tokens at different times."""
    measure(world.texts(tmp_path / "texts.toml", BY_STAGES), tmp_path / "trained")
    given = ("--set", 'finetune.given=["standard"]', "--set", f'finetune.checkpoints="{tmp_path}/trained/checkpoints"')
    of_width = {width: numbers(measure(tmp_path / "texts.toml", tmp_path / f"whole_{width}", *given, "--set",
                                       f"run.ranks_per_unit={width}", ranks=width)) for width in (1, 2)}
    assert (of_width[1]["generation/standard/tokens"] >= 0).any() and "generation_sum/standard/value" in of_width[1]
    assert "generation_sum/posthoc/value" in of_width[1]
    for ranks, expected, how in ((1, 1, "run.memory=1e-6"), (2, 2, "run.memory=1e-6"), (3, 1, "run.memory=0")):
        in_memory = "stages" if ranks == expected else "stretches"
        ours = measure(tmp_path / "texts.toml", tmp_path / f"on_{ranks}", *given, "--set", how, "--set",
                       f"run.ranks_per_unit={ranks}", "--set", f'model.in_memory="{in_memory}"', ranks=ranks)
        assert differing(of_width[expected], numbers(ours)) == [], (ranks, in_memory)


def _letters(world: AnswersWorld, values: list[int]) -> None:
    with h5py.File(world.task("moods"), "r+") as file:
        del file["head/letters"]
        file["head/letters"] = np.array(values)


@pytest.mark.parametrize(("values", "expected"), [
    ([0, 1, 1], "/head/letters: row 0 holds 0; expected 1"),
    ([1, 1], "/head/letters: has 2 rows; expected 3"),
])
def test_wrong_letters_are_refused_in_one_line(
        world: AnswersWorld, tmp_path: Path, values: list[int], expected: str) -> None:
    refused_in_one_line(world, lambda copy: _letters(copy, values), expected, tmp_path, ranks=1)


def test_texts_without_room_for_their_answers_are_refused_in_one_line(world: AnswersWorld, tmp_path: Path) -> None:
    refused_in_one_line(world, lambda copy: shorten(copy, 8), "of an answer behind it; the model", tmp_path, ranks=1)
