# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""T5's whole answers against transformers and torch.func, in double precision: the loss of T5ForConditionalGeneration
by teacher forcing, scores of labels' whole sequences, of which some begin alike, each quantity of these, and texts."""

import pytest
import torch
from oracle import relative
from test_t5_oracle import CASES, World, norms_in_double
from torch import Tensor
from torch.func import functional_call, grad, jacrev, jvp
from torch.nn.functional import log_softmax

__all__ = ["norms_in_double"]
# Answers of one token and of several, two that begin alike, one that goes on where another ends.
SEQUENCES = [[17, 1], [4, 9, 1], [4, 9, 30, 1], [4, 1]]
LABELS = torch.tensor([0, 1, 2, 3, 2])


def packed(rows: list[list[int]], behind: int) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [behind] * (longest - len(row)) for row in rows])


def targets(labels: Tensor) -> Tensor:
    """As transformers' `labels`, −100 behind each end."""
    return packed([SEQUENCES[label] for label in labels], -100)


def flat(of: dict[str, Tensor], names: object, key: str = "") -> Tensor:
    return torch.cat([of[f"{key}{name}"].flatten() for name in names])


class Answers(World):
    def loss(self, p: dict[str, Tensor], wanted: Tensor) -> Tensor:
        """transformers' own."""
        given = {"input_ids": self.ids, "attention_mask": self.used.long(), "labels": wanted, "use_cache": False}
        return functional_call(self.model, p, (), given).loss

    def scores(self, p: dict[str, Tensor], rows: slice = slice(None)) -> Tensor:
        """[n, classes]: of one label at a time, its tokens' log-probabilities added up."""
        found = []
        for sequence in SEQUENCES:
            ids = self.ids[rows]
            start = self.config.decoder_start_token_id
            before = torch.tensor([[start, *sequence[:-1]]]).expand(len(ids), -1)
            given = {"input_ids": ids, "attention_mask": self.used[rows].long(), "decoder_input_ids": before,
                     "use_cache": False}
            log_p = log_softmax(functional_call(self.model, p, (), given).logits, 2)
            found.append(sum(log_p[:, i, token] for i, token in enumerate(sequence)))
        return torch.stack(found, 1)

    def given(self) -> dict[str, Tensor]:
        return {"sequences": packed(SEQUENCES, 0), "sequence_lengths": torch.tensor([len(one) for one in SEQUENCES]),
                "labels": LABELS, "scale": torch.ones(1, dtype=torch.double)}


@pytest.fixture(params=["t5", "flan", "longer_decoder_and_another_start"])
def world(request: pytest.FixtureRequest, tmp_path) -> Answers:
    return Answers(CASES[request.param], tmp_path)


def test_scores_of_whole_sequences_and_the_loss_of_the_right_one(world: Answers) -> None:
    tau = {k: 0.05 * torch.randn_like(v) for k, v in world.theta.items()}
    out = world.probe(**world.given(), **{f"tau.{k}": v for k, v in tau.items()})
    names = list(world.theta)
    scores, along = jvp(world.scores, (world.theta,), (tau,))
    assert relative(out["logits"], scores) < 1e-12
    assert relative(out["jvp_logits"], along) < 1e-10
    assert out["correct"].tolist() == (scores.argmax(1) == LABELS).long().tolist()

    def loss(p: dict[str, Tensor]) -> Tensor:
        return world.loss(p, targets(LABELS))

    assert abs(float(out["loss"]) - float(loss(world.theta))) < 1e-6 * float(out["loss"])
    gradient = grad(loss)
    assert relative(flat(out, names, "gradient."), flat(gradient(world.theta), names)) < 1e-10
    assert relative(flat(out, names, "hvp."), flat(jvp(gradient, (world.theta,), (tau,))[1], names)) < 1e-10
    queries = "decoder.block.0.layer.0.SelfAttention.q.weight"
    assert float(out[f"gradient.{queries}"].norm()) > 0  # there are places to attend to

    def jacobian(i: int) -> Tensor:
        found = jacrev(lambda p: world.scores(p, slice(i, i + 1))[0])(world.theta)
        return torch.cat([v.flatten(1) for v in found.values()], 1)

    rows = torch.stack([jacobian(i) for i in range(len(world.ids))])
    assert relative(out["per_sample_norm"], rows.sum(1).norm(dim=1)) < 1e-10
    for c in range(2):
        gram = rows[:, c] @ rows[:, c].T
        assert relative(out["gram"][c], gram) < 1e-10
        assert relative(out["gram_factors"][c], gram[1:]) < 1e-10


def test_frozen_rows_read_the_same(world: Answers) -> None:
    rows = world.theta.get("lm_head.weight", world.theta["shared.weight"])
    tau = {f"tau.{k}": torch.zeros_like(v) for k, v in world.theta.items()}
    out = world.probe(**world.given(), rows=rows, **tau)
    assert relative(out["logits"], world.scores(world.theta)) < 1e-12


def test_texts_are_read_as_they_are_trained(world: Answers) -> None:
    """Logits by teacher forcing, loss and gradients; and what is right is what greedy decoding gives exactly then."""
    tau = {k: 0.05 * torch.randn_like(v) for k, v in world.theta.items()}
    said = world.model.generate(input_ids=world.ids, attention_mask=world.used.long(), do_sample=False, num_beams=1,
                                max_new_tokens=4, min_new_tokens=4, use_cache=False)[:, 1:]
    wanted = said.clone()
    wanted[1, 2] = (wanted[1, 2] + 1) % world.config.vocab_size  # another answer
    wanted[2, 3] = -100  # a shorter one
    out = world.probe(labels=wanted, scale=torch.ones(1, dtype=torch.double),
                      **{f"tau.{k}": v for k, v in tau.items()})
    names = list(world.theta)

    def logits(p: dict[str, Tensor]) -> Tensor:
        given = {"input_ids": world.ids, "attention_mask": world.used.long(), "labels": wanted, "use_cache": False}
        return functional_call(world.model, p, (), given).logits

    z, along = jvp(logits, (world.theta,), (tau,))
    assert relative(out["logits"], z.flatten(1)) < 1e-12
    assert relative(out["jvp"], along.flatten(1)) < 1e-10
    assert out["correct"].tolist() == [1, 0, 1, 1, 1]
    gradient = grad(lambda p: world.loss(p, wanted))
    assert abs(float(out["loss"]) - float(world.loss(world.theta, wanted))) < 1e-6 * float(out["loss"])
    assert relative(flat(out, names, "gradient."), flat(gradient(world.theta), names)) < 1e-10
    assert relative(flat(out, names, "hvp."), flat(jvp(gradient, (world.theta,), (tau,))[1], names)) < 1e-10
