# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Answers of several tokens behind decoders' prompts, against transformers' models on each prompt with each answer."""

import pytest
import torch
from answers_oracle import (
    assert_choices_agree,
    assert_frozen_rows_read_the_same,
    assert_sequences_agree,
    assert_texts_agree,
)
from test_decoder_oracle import CASES, World, all_in_double
from torch import Tensor
from torch.func import functional_call

__all__ = ["all_in_double"]


class Answers(World):
    def answered(self, p: dict[str, Tensor], wanted: Tensor, rows: slice = slice(None)) -> Tensor:
        """A text at a time, without padding: its tokens, and the answer's but for the last one."""
        of_texts = []
        for text, length, answer in zip(self.ids[rows], self.lengths[rows], wanted, strict=True):
            line = torch.cat([text[:length], answer[:-1].clamp_min(0)])
            logits = functional_call(self.model, p, (), {"input_ids": line[None], "use_cache": False}).logits
            of_texts.append(logits[0, int(length) - 1 :])
        return torch.stack(of_texts)


@pytest.mark.parametrize("name", ["llama", "llama_with_as_many_heads_and_wide_ones", "yarn_with_a_factor", "mistral",
                                  "qwen2_with_windows_above", "qwen3", "gemma2", "gemma3", "gpt2"])
def test_scores_of_whole_sequences_and_the_loss_of_the_right_one(name: str, tmp_path) -> None:
    assert_sequences_agree(Answers(CASES[name], tmp_path))


@pytest.mark.parametrize("name", ["llama", "llama_tied_with_biases", "gemma3", "gpt2"])
def test_frozen_rows_read_the_same(name: str, tmp_path) -> None:
    world = Answers(CASES[name], tmp_path)
    assert_frozen_rows_read_the_same(world, world.model.get_output_embeddings().weight.detach())


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "gpt2"])
def test_texts_are_read_as_they_are_trained(name: str, tmp_path) -> None:
    world = Answers(CASES[name], tmp_path)
    said = torch.empty(len(world.ids), 0, dtype=torch.long)
    for _ in range(4):  # greedily, all of the text run again for each token
        wanted = torch.cat([said, torch.zeros(len(said), 1, dtype=torch.long)], 1)
        said = torch.cat([said, world.answered(world.theta, wanted)[:, -1].argmax(1, keepdim=True)], 1)
    assert_texts_agree(world, said)


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3", "gemma2", "gpt2"])
def test_scores_of_each_rows_own_choices(name: str, tmp_path) -> None:
    assert_choices_agree(Answers(CASES[name], tmp_path))


def test_frozen_rows_score_choices_the_same(tmp_path) -> None:
    world = Answers(CASES["llama"], tmp_path)
    assert_choices_agree(world, world.model.get_output_embeddings().weight.detach())
