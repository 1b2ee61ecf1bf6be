# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Decoder-only language models against transformers and torch.func, in double precision: logits of label words at the
last token of padded prompts, and what is derived of them."""

import importlib
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import ENDS, assert_products_agree, name_ends, relative
from safetensors.torch import load_file, save_file
from test_text_oracle import PROBE
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM

MOST = 12
SMALL: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "initializer_range": 0.3,
}
NORMS = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma2": "Gemma2",
         "gemma3": "Gemma3"}


@pytest.fixture(autouse=True)
def all_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers takes means of squares and softmax in float32, whatever it is given."""
    for module, name in NORMS.items():
        norm = getattr(importlib.import_module(f"transformers.models.{module}.modeling_{module}"), name + "RMSNorm")
        centred = module.startswith("gemma")

        def forward(self: Any, x: Tensor, centred: bool = centred) -> Tensor:
            epsilon = self.eps if centred else self.variance_epsilon
            return (self.weight + centred) * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)

        monkeypatch.setattr(norm, "forward", forward)
    monkeypatch.setattr(functional, "softmax", lambda x, dim, dtype=None: torch.softmax(x, dim))


@dataclass(frozen=True)
class Switches:
    family: str
    config: dict[str, Any] = field(default_factory=dict)
    of_version_4: dict[str, Any] | None = None  # its keys in place of rope_parameters
    padded: bool = True


def rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}}


LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8}
CASES = {
    "llama": Switches("llama"),
    "llama_tied_with_biases": Switches("llama", {"tie_word_embeddings": True, "attention_bias": True,
                                                 "mlp_bias": True}),
    "llama_with_as_many_heads_and_wide_ones": Switches("llama", {"num_key_value_heads": 4, "head_dim": 6},
                                                       padded=False),
    "llama3": Switches("llama", rope("llama3", **LLAMA3)),
    "llama3_of_version_4": Switches("llama", rope("llama3", **LLAMA3) | {"tie_word_embeddings": True}, {
        "rope_theta": 10000.0, "rope_scaling": {"rope_type": "llama3", **LLAMA3}}),
    "llama3_with_a_length_beside_the_scaling": Switches("llama", rope("llama3", **LLAMA3) | {
        "original_max_position_embeddings": 4}),
    "linear_positions": Switches("llama", rope("linear", factor=4.0)),
    "linear_positions_of_version_4": Switches("llama", rope("linear", factor=4.0), {
        "rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 4.0}}),
    "a_large_base_of_version_4": Switches("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e6}},
                                          {"rope_theta": 5000000}),
    "dynamic_positions": Switches("llama", rope("dynamic", factor=2.0)),
    "yarn": Switches("llama", rope("yarn", factor=4.0, original_max_position_embeddings=16) | {"head_dim": 12}),
    "yarn_with_a_factor": Switches("llama", rope("yarn", factor=4.0, original_max_position_embeddings=16,
                                                 attention_factor=1.3, beta_fast=4.0, beta_slow=2.0)),
    "mistral": Switches("mistral", {"sliding_window": 4}),
    "mistral_without_window": Switches("mistral", {"sliding_window": None, "rms_norm_eps": 1e-3}),
    "qwen2": Switches("qwen2", {"tie_word_embeddings": True}),
    "qwen2_with_windows_above": Switches("qwen2", {"use_sliding_window": True, "sliding_window": 3,
                                                   "max_window_layers": 1}),
    "qwen3": Switches("qwen3", {"head_dim": 8, "attention_bias": True}),
    "gemma2": Switches("gemma2", {"head_dim": 8, "sliding_window": 4, "query_pre_attn_scalar": 5,
                                  "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.0}),
    "gemma2_without_caps": Switches("gemma2", {"head_dim": 4, "attn_logit_softcapping": None,
                                               "final_logit_softcapping": None}),
    "gemma3": Switches("gemma3_text", {"head_dim": 8, "sliding_window": 4, "query_pre_attn_scalar": 7,
                                       "sliding_window_pattern": 2}),
    "gemma3_of_version_4": Switches("gemma3_text", {"head_dim": 8, "sliding_window": 4, "sliding_window_pattern": 3,
                                                    "rope_parameters": {
                                                        "full_attention": {"rope_type": "linear", "factor": 8.0,
                                                                           "rope_theta": 1e6},
                                                        "sliding_attention": {"rope_type": "default",
                                                                              "rope_theta": 1e4}}}, {
        "rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "sliding_window_pattern": 3}),
    "gpt2": Switches("gpt2"),
    "gpt2_untied_with_another_mlp": Switches("gpt2", {"tie_word_embeddings": False, "n_inner": 20,
                                                      "activation_function": "relu", "layer_norm_epsilon": 1e-3}),
}


class World:
    """A random model in a folder, and a batch of prompts."""

    def __init__(self, switches: Switches, folder: Path) -> None:
        self.folder = folder
        torch.manual_seed(23)
        config = AutoConfig.for_model(switches.family, **{**SMALL, **switches.config})
        whole = AutoModelForCausalLM.from_config(config)
        with torch.no_grad():  # norms and biases away from their initial ones
            for p in whole.parameters():
                p.add_((0.2 if p.ndim == 1 else 0.02) * torch.randn_like(p))
        whole.save_pretrained(folder / "theirs")
        if switches.of_version_4 is not None:
            self.change_config({**switches.of_version_4, "rope_parameters": ..., "layer_types": ...})
        self.config = config
        self.model = self.loaded("theirs")
        self.theta = {k: v.detach() for k, v in self.model.named_parameters()}
        self.lengths = torch.tensor([6, 3, MOST, 1, 9]) if switches.padded else torch.full((5,), MOST)
        self.ids = torch.randint(4, config.vocab_size, (5, MOST))
        self.used = torch.arange(MOST) < self.lengths[:, None]
        self.ids[~self.used] = 0
        self.words = torch.tensor([17, 4, 30, int(self.ids[0, 0])])  # the last stands in a prompt, too
        self.labels = torch.tensor([0, 1, 2, 3, 1])

    def change_config(self, changes: dict[str, Any]) -> None:
        """Sets keys of config.json; those that are `...` are taken out."""
        path = self.folder / "theirs" / "config.json"
        said = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({k: v for k, v in said.items() if v is not ...}))

    def loaded(self, name: str) -> Any:
        return AutoModelForCausalLM.from_pretrained(self.folder / name, attn_implementation="eager").double().eval()

    def probe(self, **more: Tensor) -> dict[str, Tensor]:
        inputs = {"ids": self.ids, "lengths": self.lengths, **more}
        save_file({k: v.contiguous() for k, v in inputs.items()}, self.folder / "in.safetensors")
        subprocess.run([PROBE, self.folder / "theirs", self.folder / "in.safetensors",
                        self.folder / "out.safetensors", self.folder / "ours"], check=True)
        return load_file(self.folder / "out.safetensors")

    def logits(self, p: dict[str, Tensor], rows: slice = slice(None)) -> Tensor:
        given = {"input_ids": self.ids[rows], "attention_mask": self.used[rows].long(), "use_cache": False}
        logits = functional_call(self.model, p, (), given).logits
        return logits[torch.arange(len(logits)), self.lengths[rows] - 1][:, self.words]


@pytest.mark.parametrize("name", CASES)
def test_every_quantity_agrees_and_the_folder_comes_back(name: str, tmp_path: Path) -> None:
    world = World(CASES[name], tmp_path)
    tau = {k: 0.05 * torch.randn_like(v) for k, v in world.theta.items()}
    out = world.probe(words=world.words, labels=world.labels, scale=torch.ones(1, dtype=torch.double),
                      **{f"tau.{k}": v for k, v in tau.items()})

    assert relative(out["logits"], world.logits(world.theta).detach()) < 1e-12
    assert_products_agree(out, world.theta, tau, world.logits, world.labels)

    again = {k: v.detach() for k, v in world.loaded("ours").named_parameters()}
    assert again.keys() == world.theta.keys() and all(torch.equal(again[k], v) for k, v in world.theta.items())
    for file in ("config.json", "generation_config.json"):
        before, after = (json.loads((tmp_path / where / file).read_text()) for where in ("theirs", "ours"))
        assert before == after


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2"])
def test_padding_on_the_left_gives_the_same(name: str, tmp_path: Path) -> None:
    """As many programs pad decoders, with positions that begin at the first token."""
    world = World(CASES[name], tmp_path)
    ours = world.probe(words=world.words, labels=world.labels, scale=torch.ones(1, dtype=torch.double),
                       **{f"tau.{k}": torch.zeros_like(v) for k, v in world.theta.items()})["logits"]
    left = torch.stack([row.roll(MOST - int(n)) for row, n in zip(world.ids, world.lengths, strict=True)])
    used = torch.arange(MOST) >= MOST - world.lengths[:, None]
    theirs = world.model(input_ids=left, attention_mask=used.long(), position_ids=(used.cumsum(1) - 1).clamp_min(0))
    assert relative(ours, theirs.logits[:, -1, world.words].detach()) < 1e-12


@pytest.mark.parametrize(("files", "expected"), [*ENDS, (({}, {"eos_token_id": None}), [])])
def test_the_tokens_that_end_a_text(tmp_path: Path, files: tuple[dict, dict], expected: list[int]) -> None:
    world = World(CASES["llama"], tmp_path)
    name_ends(tmp_path / "theirs", *files)
    assert world.probe()["ends"].tolist() == expected


def test_what_stands_behind_a_prompt_is_never_read(tmp_path: Path) -> None:
    world = World(CASES["mistral"], tmp_path)
    before = world.probe()["encoded"]
    world.ids[~world.used] = 17
    assert torch.equal(world.probe()["encoded"], before)


def test_frequencies_in_an_old_file_are_looked_at(tmp_path: Path) -> None:
    world = World(CASES["llama"], tmp_path)
    before = world.probe()["encoded"]
    path = tmp_path / "theirs" / "model.safetensors"
    right = 1 / 10000 ** (torch.arange(0, 4, 2) / 4)
    name = "model.layers.1.self_attn.rotary_emb.inv_freq"
    save_file({**load_file(path), name: right.half()}, path)
    assert torch.equal(world.probe()["encoded"], before)
    save_file({**load_file(path), name: right * 2}, path)
    assert_refused(world, f"{name} is not what config.json gives")


def test_a_head_of_labels_is_passed_over_and_a_double_must_be_equal(tmp_path: Path) -> None:
    world = World(CASES["qwen2"], tmp_path)
    before = world.probe()["encoded"]
    path = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(path)
    words = tensors["model.embed_tokens.weight"]
    world.change_config({"architectures": ["Qwen2ForSequenceClassification"]})
    save_file({**tensors, "score.weight": torch.ones(2, 16), "lm_head.weight": words.clone()}, path)
    assert torch.equal(world.probe()["encoded"], before)
    save_file({**tensors, "lm_head.weight": words + 1}, path)
    assert_refused(world, "lm_head.weight differs from model.embed_tokens.weight")
    save_file({**{k: v for k, v in tensors.items() if k != "model.embed_tokens.weight"}, "lm_head.weight": words}, path)
    assert torch.equal(world.probe()["encoded"], before)


def test_gpt2s_of_the_hub_have_masks_and_names_without_their_beginning(tmp_path: Path) -> None:
    world = World(CASES["gpt2"], tmp_path)
    before = world.probe()["encoded"]
    path = tmp_path / "theirs" / "model.safetensors"
    tensors = {name.removeprefix("transformer."): v for name, v in load_file(path).items()}
    mask = torch.ones(64, 64).tril()[None, None]
    save_file({**tensors, "h.0.attn.bias": mask}, path)
    assert torch.equal(world.probe()["encoded"], before)
    save_file({**tensors, "h.0.attn.bias": mask.mT.contiguous()}, path)
    assert_refused(world, "h.0.attn.bias is not what config.json gives")
    save_file({**tensors, "h.0.attn.c_attn.weight": tensors["h.0.attn.c_attn.weight"].T.contiguous()}, path)
    assert_refused(world, "c_attn.weight has shape [48, 16]; expected [16, 48]")


def assert_refused(world: World, named: str) -> None:
    save_file({"ids": world.ids, "lengths": world.lengths}, world.folder / "in.safetensors")
    done = subprocess.run([PROBE, world.folder / "theirs", world.folder / "in.safetensors",
                           world.folder / "out.safetensors"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert named in done.stderr, done.stderr


@pytest.mark.parametrize(("name", "change", "named"), [
    ("llama", rope("longrope", factor=2.0), "scaled by 'longrope'; expected default, linear"),
    ("llama", rope("linear"), "no factor"),
    ("llama", rope("linear", factor=-1), "factor -1; expected a positive number"),
    ("llama", rope("llama3", **{**LLAMA3, "high_freq_factor": 0.5}), "high_freq_factor below low_freq_factor"),
    ("llama", rope("yarn", factor=2.0, mscale=1.0), "has mscale"),
    ("llama", rope("linear", factor=1e-300), "angles that are not finite"),
    ("llama", rope("default", partial_rotary_factor=0.5), "partial_rotary_factor is not 1"),
    ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "has both rope_scaling and rope_parameters"),
    ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is not 1"),
    ("gemma3", rope("default"), "rope_parameters are not by kind of layer"),
    ("llama", {"architectures": ["LlamaForSequenceClassification"]}, "architectures is"),
    ("qwen3", {"layer_types": ["sliding_attention"] * 3, "sliding_window": 4, "use_sliding_window": False},
     "expected sliding_window and use_sliding_window = true"),
    ("llama", {"rope_parameters": [1]}, "rotary parameters are [1]"),
    ("llama", {"rope_parameters": {"rope_type": 3}}, "rope_type is no text"),
    ("llama", {"num_key_value_heads": 3}, "not a multiple of num_key_value_heads"),
    ("llama", {"head_dim": 5}, "head_dim is odd"),
    ("llama", {"num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": ...}, "not a multiple of num_att"),
    ("llama", {"hidden_act": "gelu"}, "hidden_act is 'gelu'; expected silu"),
    ("llama", {"architectures": ["LlamaModel"]}, 'architectures is ["LlamaModel"]'),
    ("llama", {"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    ("llama", {"attention_bias": True}, "q_proj.bias is missing"),
    ("qwen3", {"layer_types": ["full_attention"], "use_sliding_window": True}, "layer_types is no list of 3 names"),
    ("qwen3", {"layer_types": ["sliding_attention"] * 3}, "has sliding_attention, but no window is in use"),
    ("gemma3", {"layer_types": ["chunked"] * 3}, 'layer_types holds "chunked"'),
    ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention is not false"),
    ("gemma3", {"attn_logit_softcapping": 5.0}, "attn_logit_softcapping"),
    ("gemma2", {"hidden_activation": "relu"}, "hidden_activation is 'relu'"),
    ("mistral", {"sliding_window": 0}, "sliding_window is 0"),
    ("gpt2", {"n_head": 3}, "n_embd is not a multiple of n_head"),
    ("gpt2", {"activation_function": "mish"}, "activation_function is 'mish'; expected gelu_new"),
    ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights is false"),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is true"),
    ("gpt2", {"add_cross_attention": True}, "add_cross_attention is true"),
    ("gpt2", {"architectures": ["GPT2Model"]}, 'expected ["GPT2LMHeadModel"]'),
    ("gpt2", {"n_positions": 32}, "wpe.weight has shape [64, 16]; expected [32, 16]"),
])
def test_what_is_no_such_model_is_refused_in_one_line(tmp_path: Path, name: str, change: dict, named: str) -> None:
    world = World(CASES[name], tmp_path)
    world.change_config(change)
    assert_refused(world, named)
