# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""T5's whole answers against T5ForConditionalGeneration by teacher forcing."""

import pytest
import torch
from answers_oracle import (
    LABELS,
    assert_choices_agree,
    assert_frozen_rows_read_the_same,
    assert_sequences_agree,
    assert_texts_agree,
    loss_of,
    targets,
)
from test_t5_oracle import CASES, World, norms_in_double
from torch import Tensor
from torch.func import functional_call

__all__ = ["norms_in_double"]


class Answers(World):
    def call(self, p: dict[str, Tensor], rows: slice, **more: Tensor) -> object:
        given = {"input_ids": self.ids[rows], "attention_mask": self.used[rows].long(), "use_cache": False, **more}
        return functional_call(self.model, p, (), given)

    def answered(self, p: dict[str, Tensor], wanted: Tensor, rows: slice = slice(None)) -> Tensor:
        start = torch.full((len(wanted), 1), self.config.decoder_start_token_id)
        before = torch.cat([start, wanted[:, :-1].clamp_min(0)], 1)
        return self.call(p, rows, decoder_input_ids=before).logits


@pytest.fixture(params=["t5", "flan", "longer_decoder_and_another_start"])
def world(request: pytest.FixtureRequest, tmp_path) -> Answers:
    return Answers(CASES[request.param], tmp_path)


def test_scores_of_whole_sequences_and_the_loss_of_the_right_one(world: Answers) -> None:
    out = assert_sequences_agree(world)
    queries = "decoder.block.0.layer.0.SelfAttention.q.weight"
    assert float(out[f"gradient.{queries}"].norm()) > 0  # there are places to attend to
    of_theirs = world.call(world.theta, slice(None), labels=targets(LABELS)).loss
    assert float(loss_of(world, world.theta, targets(LABELS))) == pytest.approx(float(of_theirs), rel=1e-6)


def test_frozen_rows_read_the_same(world: Answers) -> None:
    assert_frozen_rows_read_the_same(world, world.theta.get("lm_head.weight", world.theta["shared.weight"]))


def test_scores_of_each_rows_own_choices(world: Answers) -> None:
    assert_choices_agree(world)


def test_texts_are_read_as_they_are_trained(world: Answers) -> None:
    said = world.model.generate(input_ids=world.ids, attention_mask=world.used.long(), do_sample=False, num_beams=1,
                                max_new_tokens=4, min_new_tokens=4, use_cache=False)[:, 1:]
    assert_texts_agree(world, said)
