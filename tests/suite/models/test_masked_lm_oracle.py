# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""BERT and RoBERTa as masked language models against transformers and torch.func, in double precision: logits of label
words at the mask, of padded prompts, with heads tied to the embeddings, which are then used twice, and untied ones."""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from oracle import assert_products_agree, relative
from safetensors.torch import load_file, save_file
from test_text_oracle import MOST, PROBE, SMALL
from torch import Tensor
from torch.func import functional_call
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, RobertaConfig, RobertaForMaskedLM

MASK = 3  # the token


@dataclass(frozen=True)
class Switches:
    config: dict = field(default_factory=dict)
    roberta: bool = False
    padded: bool = True
    pre_training: bool = False  # with a head for next sentences, which is passed over


CASES = {
    "bert": Switches(),
    "bert_untied": Switches({"tie_word_embeddings": False}),
    "bert_relu_of_one_length": Switches({"hidden_act": "relu", "layer_norm_eps": 1e-5}, padded=False),
    "bert_pre_training": Switches(pre_training=True),
    "roberta": Switches({"type_vocab_size": 1, "pad_token_id": 1}, roberta=True),
    "roberta_untied": Switches({"type_vocab_size": 1, "pad_token_id": 2, "tie_word_embeddings": False}, roberta=True),
    "roberta_relu": Switches({"type_vocab_size": 1, "hidden_act": "relu", "num_hidden_layers": 1}, roberta=True),
}


class World:
    """A random model in a folder, and a batch of prompts."""

    def __init__(self, switches: Switches, folder: Path) -> None:
        self.switches, self.folder = switches, folder
        torch.manual_seed(13)
        config = (RobertaConfig if switches.roberta else BertConfig)(**{**SMALL, **switches.config})
        self.kind = RobertaForMaskedLM if switches.roberta else BertForMaskedLM
        whole = (BertForPreTraining if switches.pre_training else self.kind)(config)
        with torch.no_grad():  # biases and norms away from their initial zeros and ones
            for p in whole.parameters():
                p.add_((0.1 if p.ndim == 1 else 0.05) * torch.randn_like(p))
        whole.save_pretrained(folder / "theirs")
        self.model = self.loaded("theirs")
        self.theta = {k: v.detach() for k, v in self.model.named_parameters() if k not in self.unused()}
        self.lengths = torch.tensor([6, 3, MOST, 2, 5]) if switches.padded else torch.full((5,), MOST)
        self.ids = torch.randint(4, config.vocab_size, (5, MOST))
        self.used = torch.arange(MOST) < self.lengths[:, None]
        self.ids[~self.used] = config.pad_token_id
        self.mask = torch.tensor([5, 0, 4, 1, 2])
        self.ids[torch.arange(5), self.mask] = MASK
        self.words = torch.tensor([17, 4, 30, int(self.ids[0, 0])])  # the last stands in a prompt, too
        self.labels = torch.tensor([0, 1, 2, 3, 1])

    def unused(self) -> set[str]:
        """An untied decoder has biases of its own."""
        untied = not self.switches.config.get("tie_word_embeddings", True)
        return {"cls.predictions.bias", "lm_head.bias"} if untied else set()

    def loaded(self, name: str) -> torch.nn.Module:
        return self.kind.from_pretrained(self.folder / name, attn_implementation="eager").double().eval()

    def probe(self, **more: Tensor) -> dict[str, Tensor]:
        inputs = {"ids": self.ids, "lengths": self.lengths, "mask": self.mask, **more}
        save_file({k: v.contiguous() for k, v in inputs.items()}, self.folder / "in.safetensors")
        subprocess.run([PROBE, self.folder / "theirs", self.folder / "in.safetensors",
                        self.folder / "out.safetensors", self.folder / "ours"], check=True)
        return load_file(self.folder / "out.safetensors")

    def logits(self, p: dict[str, Tensor], rows: slice = slice(None)) -> Tensor:
        given = {"input_ids": self.ids[rows], "attention_mask": self.used[rows].long()}
        every = functional_call(self.model, p, (), given).logits
        return every[torch.arange(len(every)), self.mask[rows]][:, self.words]


@pytest.fixture(params=CASES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(CASES[request.param], tmp_path)


def test_every_quantity_agrees_and_the_folder_comes_back(world: World) -> None:
    tau = {k: 0.05 * torch.randn_like(v) for k, v in world.theta.items()}
    out = world.probe(words=world.words, labels=world.labels, scale=torch.ones(1, dtype=torch.double),
                      **{f"tau.{k}": v for k, v in tau.items()})

    assert_products_agree(out, world.theta, tau, world.logits, world.labels)

    again = {k: v.detach() for k, v in world.loaded("ours").named_parameters() if k not in world.unused()}
    assert again.keys() == world.theta.keys() and all(torch.equal(again[k], v) for k, v in world.theta.items())
    before, after = (json.loads((world.folder / name / "config.json").read_text()) for name in ("theirs", "ours"))
    assert before == after


def test_the_features_are_the_heads_transform_at_the_mask(world: World) -> None:
    """Whatever stands behind a prompt; rows of the vocabulary and biases make them transformers' logits."""
    out = world.probe()["encoded"]
    head = world.model.cls.predictions if not world.switches.roberta else world.model.lm_head
    with torch.no_grad():
        logits = out.double() @ head.decoder.weight[world.words].T + head.decoder.bias[world.words]
        assert relative(logits, world.logits(world.theta)) < 1e-5  # of single precision
    world.ids[~world.used] = 17
    assert torch.equal(world.probe()["encoded"], out)


def test_a_folder_without_its_head_is_refused_in_one_line(tmp_path: Path) -> None:
    world = World(CASES["bert"], tmp_path)
    path = tmp_path / "theirs" / "model.safetensors"
    kept = {k: v for k, v in load_file(path).items() if "transform.dense" not in k}
    save_file(kept, path, metadata={"format": "pt"})
    save_file({"ids": world.ids, "lengths": world.lengths, "mask": world.mask}, tmp_path / "in.safetensors")
    done = subprocess.run([PROBE, tmp_path / "theirs", tmp_path / "in.safetensors", tmp_path / "out.safetensors"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "cls.predictions.transform.dense.weight is missing" in done.stderr
