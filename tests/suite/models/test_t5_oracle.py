# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""T5 and Flan-T5 against transformers and torch.func, in double precision: logits of label words at the decoder's first
step, of padded prompts, with heads that the embeddings are, which are then used three times, and others."""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from oracle import ENDS, assert_products_agree, name_ends, relative
from safetensors.torch import load_file, save_file
from test_text_oracle import PROBE
from torch import Tensor
from torch.func import functional_call
from transformers import T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5LayerNorm

MOST = 12
SMALL = dict(vocab_size=40, d_model=16, d_kv=5, d_ff=24, num_layers=2, num_heads=3, relative_attention_num_buckets=8,
             relative_attention_max_distance=7, decoder_start_token_id=0, attn_implementation="eager")


@pytest.fixture(autouse=True)
def norms_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers takes the mean of squares in float32, whatever it is given."""

    def forward(self: T5LayerNorm, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon)

    monkeypatch.setattr(T5LayerNorm, "forward", forward)


@dataclass(frozen=True)
class Switches:
    config: dict = field(default_factory=dict)
    own_head: bool = False
    padded: bool = True
    as_on_the_hub: bool = False  # config.json as transformers wrote it before it called every head tied


FLAN = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
CASES = {
    "t5": Switches(),
    "flan": Switches(FLAN, own_head=True),
    "flan_on_the_hub": Switches(FLAN, own_head=True, as_on_the_hub=True),
    "gated_and_scaled_of_one_length": Switches({"feed_forward_proj": "gated-gelu", "layer_norm_epsilon": 1e-3},
                                               padded=False),
    "longer_decoder_and_another_start": Switches({"num_layers": 1, "num_decoder_layers": 3, "pad_token_id": 2,
                                                  "decoder_start_token_id": 5, "d_kv": 7, "num_heads": 1}),
    "unscaled": Switches({"tie_word_embeddings": False, "relative_attention_max_distance": 128}),
}


class World:
    """A random model in a folder, and a batch of prompts."""

    def __init__(self, switches: Switches, folder: Path) -> None:
        self.switches, self.folder = switches, folder
        torch.manual_seed(17)
        self.config = T5Config(**{**SMALL, **switches.config})
        whole = T5ForConditionalGeneration(self.config)
        if switches.own_head:
            whole.lm_head.weight = torch.nn.Parameter(torch.randn(self.config.vocab_size, self.config.d_model))
        with torch.no_grad():  # norms away from their initial ones, biases large enough to matter
            for p in whole.parameters():
                p.add_((0.1 if p.ndim == 1 else 0.05) * torch.randn_like(p))
            for stack in (whole.encoder, whole.decoder):
                stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight.normal_()
        whole.save_pretrained(folder / "theirs")
        if switches.as_on_the_hub:
            path = folder / "theirs" / "config.json"
            config = json.loads(path.read_text()) | {"tie_word_embeddings": False}
            path.write_text(json.dumps({k: v for k, v in config.items() if k != "scale_decoder_outputs"}))
        self.model = self.loaded("theirs")
        self.theta = {k: v.detach() for k, v in self.model.named_parameters()}
        self.lengths = torch.tensor([6, 3, MOST, 1, 9]) if switches.padded else torch.full((5,), MOST)
        self.ids = torch.randint(4, self.config.vocab_size, (5, MOST))
        self.used = torch.arange(MOST) < self.lengths[:, None]
        self.ids[~self.used] = self.config.pad_token_id
        self.words = torch.tensor([17, 4, 30, int(self.ids[0, 0])])  # the last stands in a prompt, too
        self.labels = torch.tensor([0, 1, 2, 3, 1])

    def loaded(self, name: str) -> T5ForConditionalGeneration:
        model = T5ForConditionalGeneration.from_pretrained(self.folder / name, attn_implementation="eager")
        return model.double().eval()

    def probe(self, **more: Tensor) -> dict[str, Tensor]:
        inputs = {"ids": self.ids, "lengths": self.lengths, **more}
        save_file({k: v.contiguous() for k, v in inputs.items()}, self.folder / "in.safetensors")
        subprocess.run([PROBE, self.folder / "theirs", self.folder / "in.safetensors",
                        self.folder / "out.safetensors", self.folder / "ours"], check=True)
        return load_file(self.folder / "out.safetensors")

    def logits(self, p: dict[str, Tensor], rows: slice = slice(None)) -> Tensor:
        ids = self.ids[rows]
        given = {"input_ids": ids, "attention_mask": self.used[rows].long(), "use_cache": False,
                 "decoder_input_ids": torch.full((len(ids), 1), self.config.decoder_start_token_id)}
        return functional_call(self.model, p, (), given).logits[:, 0, self.words]


@pytest.mark.parametrize("name", CASES)
def test_every_quantity_agrees_and_the_folder_comes_back(name: str, tmp_path: Path) -> None:
    world = World(CASES[name], tmp_path)
    tau = {k: 0.05 * torch.randn_like(v) for k, v in world.theta.items()}
    out = world.probe(words=world.words, labels=world.labels, scale=torch.ones(1, dtype=torch.double),
                      **{f"tau.{k}": v for k, v in tau.items()})

    rows_of_words = world.theta.get("lm_head.weight", world.theta["shared.weight"])[world.words]
    assert relative(out["encoded"] @ rows_of_words.T, world.logits(world.theta).detach()) < 1e-12
    assert_products_agree(out, world.theta, tau, world.logits, world.labels)
    for block in ("SelfAttention.q.weight", "SelfAttention.relative_attention_bias.weight"):
        assert float(out[f"gradient.encoder.block.0.layer.0.{block}"].norm()) > 0
        assert float(out[f"gradient.decoder.block.0.layer.0.{block}"].norm()) == 0  # of one token

    again = {k: v.detach() for k, v in world.loaded("ours").named_parameters()}
    assert again.keys() == world.theta.keys() and all(torch.equal(again[k], v) for k, v in world.theta.items())
    for name in ("config.json", "generation_config.json"):
        before, after = (json.loads((tmp_path / where / name).read_text()) for where in ("theirs", "ours"))
        assert before == after


@pytest.mark.parametrize(("files", "expected"), [*ENDS, (({}, {"eos_token_id": None}), [1])])
def test_the_tokens_that_end_a_text(tmp_path: Path, files: tuple[dict, dict], expected: list[int]) -> None:
    world = World(CASES["flan"], tmp_path)
    name_ends(tmp_path / "theirs", *files)
    assert world.probe()["ends"].tolist() == expected


def test_what_stands_behind_a_prompt_is_never_read(tmp_path: Path) -> None:
    world = World(CASES["flan"], tmp_path)
    before = world.probe()["encoded"]
    world.ids[~world.used] = 17
    assert torch.equal(world.probe()["encoded"], before)


@pytest.mark.parametrize(("change", "named"), [
    ({"feed_forward_proj": "gated-silu"}, "feed_forward_proj is 'gated-silu'"),
    ({"dense_act_fn": "gelu_new"}, "dense_act_fn is 'gelu_new'; expected relu"),
    ({"architectures": ["T5EncoderModel"]}, 'architectures is ["T5EncoderModel"]'),
    ({"relative_attention_num_buckets": 3}, "relative_attention_num_buckets is 3"),
    ({"relative_attention_max_distance": 4}, "relative_attention_max_distance is 4"),
    ({"decoder_start_token_id": 40}, "decoder_start_token_id is 40"),
    ({"is_decoder": True}, "is_decoder is true"),
    ({"tie_word_embeddings": False, "scale_decoder_outputs": None}, "lm_head.weight is missing"),
])
def test_what_is_no_such_model_is_refused_in_one_line(tmp_path: Path, change: dict, named: str) -> None:
    world = World(CASES["t5"], tmp_path)
    path = tmp_path / "theirs" / "config.json"
    config = json.loads(path.read_text()) | change
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    save_file({"ids": world.ids, "lengths": world.lengths}, tmp_path / "in.safetensors")
    done = subprocess.run([PROBE, tmp_path / "theirs", tmp_path / "in.safetensors", tmp_path / "out.safetensors"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert named in done.stderr, done.stderr
