# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""BERT and RoBERTa against transformers, their derivative products against torch.func, in double precision: padding,
second texts and both ways of pooling included; MiniLM's real weights against the values that its card publishes."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from oracle import relative
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.func import functional_call, grad, jacrev, jvp
from transformers import BertConfig, BertForMaskedLM, BertModel, RobertaConfig, RobertaForMaskedLM, RobertaModel

PROBE = os.environ["MODEL_PROBE"]
MOST, CLASSES, SCALE = 8, 4, 20.0
SMALL = dict(vocab_size=40, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
             max_position_embeddings=16, attn_implementation="eager")


@dataclass(frozen=True)
class Switches:
    """A model: what its config.json and its pooling say, and what its texts have."""

    config: dict = field(default_factory=dict)
    roberta: bool = False
    mean: bool = True
    pairs: bool = False
    padded: bool = True
    masked_lm: bool = False  # the encoder lies inside a language model


CASES = {
    "bert": Switches(),
    "one_length": Switches(padded=False),
    "pairs": Switches(pairs=True),
    "first_token": Switches(mean=False, pairs=True),
    "relu_one_head": Switches({"hidden_act": "relu", "num_attention_heads": 1, "layer_norm_eps": 1e-5}),
    "one_layer_of_many_heads": Switches({"num_hidden_layers": 1, "num_attention_heads": 12}),
    "one_type": Switches({"type_vocab_size": 1}),
    "inside_a_language_model": Switches(masked_lm=True),
    "roberta": Switches({"type_vocab_size": 1, "pad_token_id": 1}, roberta=True),
    "roberta_first_token": Switches({"type_vocab_size": 1, "pad_token_id": 3}, roberta=True, mean=False),
    "roberta_inside_a_language_model": Switches({"type_vocab_size": 1}, roberta=True, masked_lm=True),
}


class World:
    """A random model in a folder, and a batch of texts of any length."""

    def __init__(self, switches: Switches, folder: Path) -> None:
        self.switches, self.folder = switches, folder
        torch.manual_seed(7)
        config = (RobertaConfig if switches.roberta else BertConfig)(**{**SMALL, **switches.config})
        if switches.masked_lm:
            whole = (RobertaForMaskedLM if switches.roberta else BertForMaskedLM)(config)
        else:
            kind = RobertaModel if switches.roberta else BertModel
            whole = kind(config, add_pooling_layer=switches.mean)  # a pooler is passed over
        with torch.no_grad():  # biases and norms away from their initial zeros and ones
            for p in whole.parameters():
                p.add_((0.1 if p.ndim == 1 else 0.05) * torch.randn_like(p))
        whole.save_pretrained(folder / "theirs")
        pooling = {"pooling_mode_cls_token": not switches.mean, "pooling_mode_mean_tokens": switches.mean,
                   "pooling_mode_max_tokens": False}
        modules = [{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
                   {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                   {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]
        (folder / "theirs" / "modules.json").write_text(json.dumps(modules))
        (folder / "theirs" / "1_Pooling").mkdir()
        (folder / "theirs" / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        self.model = self.loaded("theirs")
        self.prefix = f"{'roberta' if switches.roberta else 'bert'}." if switches.masked_lm else ""
        self.theta = {k: v.detach() for k, v in self.model.named_parameters()}
        n = 5
        self.lengths = torch.tensor([6, 3, MOST, 1, 5]) if switches.padded else torch.full((n,), MOST)
        self.ids = torch.randint(4, config.vocab_size, (n, MOST))
        self.used = torch.arange(MOST) < self.lengths[:, None]
        self.ids[~self.used] = config.pad_token_id
        second = torch.arange(MOST) >= self.lengths[:, None] // 2
        self.types = (second & self.used).long() if switches.pairs else torch.zeros(n, MOST, dtype=torch.long)
        self.head = torch.nn.functional.normalize(torch.randn(CLASSES, config.hidden_size, dtype=torch.double), dim=1)
        self.labels = torch.tensor([0, 1, 2, 3, 1])

    def loaded(self, name: str) -> torch.nn.Module:
        kind = RobertaModel if self.switches.roberta else BertModel
        model = kind.from_pretrained(self.folder / name, add_pooling_layer=False, attn_implementation="eager")
        return model.double().eval()

    def probe(self, **more: Tensor) -> dict[str, Tensor]:
        inputs = {"ids": self.ids, "lengths": self.lengths, **more}
        if self.switches.pairs:
            inputs["types"] = self.types
        save_file({k: v.contiguous() for k, v in inputs.items()}, self.folder / "in.safetensors")
        subprocess.run([PROBE, self.folder / "theirs", self.folder / "in.safetensors",
                        self.folder / "out.safetensors", self.folder / "ours"], check=True)
        return load_file(self.folder / "out.safetensors")

    def encode(self, p: dict[str, Tensor], ids: Tensor, types: Tensor, used: Tensor) -> Tensor:
        given = {"input_ids": ids, "attention_mask": used.long(), "token_type_ids": types}
        h = functional_call(self.model, p, (), given).last_hidden_state
        if not self.switches.mean:
            return h[:, 0]
        return (h * used[:, :, None]).sum(1) / used.sum(1, keepdim=True)

    def output(self, p: dict[str, Tensor]) -> Tensor:
        return self.encode(p, self.ids, self.types, self.used)

    def logits(self, z: Tensor) -> Tensor:
        return SCALE * torch.nn.functional.normalize(z, dim=-1) @ self.head.T


@pytest.fixture(params=CASES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(CASES[request.param], tmp_path)


def test_every_quantity_agrees_and_the_folder_comes_back(world: World) -> None:
    tau = {k: 0.05 * torch.randn_like(v) for k, v in world.theta.items()}
    out = world.probe(head=world.head, labels=world.labels, scale=torch.tensor([SCALE], dtype=torch.double),
                      **{f"tau.{world.prefix}{k}": v for k, v in tau.items()})

    def flat(of: dict[str, Tensor], key: str = "") -> Tensor:
        return torch.cat([of[key + (world.prefix if key else "") + k].flatten() for k in world.theta])

    def loss(p: dict[str, Tensor]) -> Tensor:
        return torch.nn.functional.cross_entropy(world.logits(world.output(p)), world.labels)

    z, along = jvp(world.output, (world.theta,), (tau,))
    assert out["encoded"].dtype == torch.double
    assert relative(out["encoded"], z) < 1e-12
    assert relative(out["jvp"], along) < 1e-11
    assert relative(out["jvp_logits"], jvp(lambda p: world.logits(world.output(p)), (world.theta,), (tau,))[1]) < 1e-11
    assert abs(float(out["loss"]) - float(loss(world.theta))) < 1e-6 * float(loss(world.theta))
    assert relative(flat(out, "gradient."), flat(grad(loss)(world.theta))) < 1e-10
    assert relative(flat(out, "hvp."), flat(jvp(grad(loss), (world.theta,), (tau,))[1])) < 1e-10

    def jacobian(i: int) -> Tensor:
        """The Jacobian for one text alone [classes, P]: samples do not mix."""
        inputs = [part[i : i + 1] for part in (world.ids, world.types, world.used)]
        derivatives = jacrev(lambda p: world.logits(world.encode(p, *inputs))[0])(world.theta)
        return torch.cat([v.flatten(1) for v in derivatives.values()], 1)

    rows = torch.stack([jacobian(i) for i in range(len(world.ids))])  # [n, classes, P]
    assert relative(out["per_sample_norm"], rows.sum(1).norm(dim=1)) < 1e-10
    assert relative(flat(out, "per_sample_sum."), rows.sum((0, 1))) < 1e-10
    for c in range(2):
        gram = rows[:, c] @ rows[:, c].T
        assert relative(out["gram"][c], gram) < 1e-10
        assert relative(out["gram_factors"][c], gram[1:]) < 1e-10

    again = {k: v.detach() for k, v in world.loaded("ours").named_parameters()}
    assert all(torch.equal(again[k], v) for k, v in world.theta.items()) and again.keys() == world.theta.keys()
    for name in ("modules.json", "1_Pooling/config.json"):
        assert (world.folder / "ours" / name).read_bytes() == (world.folder / "theirs" / name).read_bytes()
    before, after = (json.loads((world.folder / name / "config.json").read_text()) for name in ("theirs", "ours"))
    assert before == after


def test_what_stands_behind_a_text_is_never_read(tmp_path: Path) -> None:
    world = World(CASES["pairs"], tmp_path)
    before = world.probe()["encoded"]
    world.ids[~world.used], world.types[~world.used] = 17, 1
    assert torch.equal(world.probe()["encoded"], before)


def test_minilm_gives_the_similarities_that_its_card_publishes(tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[3] / "jobs" / "prepare"))
    from texts import minilm
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm.model_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    # The three sentences of the sentence-transformers documentation, and its similarities.
    sentences = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    token_ids = [encoding.ids for encoding in tokenizer.encode_batch(sentences)]
    ids = torch.zeros(3, max(map(len, token_ids)), dtype=torch.long)
    for row, each in enumerate(token_ids):
        ids[row, : len(each)] = torch.tensor(each)
    save_file({"ids": ids, "lengths": torch.tensor([len(each) for each in token_ids])}, tmp_path / "in.safetensors")
    subprocess.run([PROBE, minilm.model_folder(), tmp_path / "in.safetensors", tmp_path / "out.safetensors"],
                   check=True)
    unit = torch.nn.functional.normalize(load_file(tmp_path / "out.safetensors")["encoded"], dim=1)
    cosines = (unit @ unit.T)[[0, 0, 1], [1, 2, 2]]
    assert torch.allclose(cosines, torch.tensor([0.6660, 0.1046, 0.1411]), atol=5e-5)


@pytest.mark.parametrize(("change", "named"), [
    ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
    ({"hidden_act": "gelu_new"}, "hidden_act is 'gelu_new'"),
    ({"is_decoder": True}, "is_decoder is true"),
    ({"num_attention_heads": 5}, "hidden_size is not a multiple"),
    ({"architectures": ["BertLMHeadModel"]}, "BertLMHeadModel"),
    ({"pad_token_id": "none"}, "pad_token_id is"),
])
def test_another_architecture_is_refused_in_one_line(tmp_path: Path, change: dict, named: str) -> None:
    world = World(CASES["bert"], tmp_path)
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refuse(world, "config.json", named)


@pytest.mark.parametrize(("name", "text", "named"), [
    ("modules.json", "{", "is not JSON"),
    ("modules.json", "{}", "is not a JSON list"),
    ("modules.json", '[{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]', "models.Dense"),
    ("modules.json", '[{"path": "../x", "type": "sentence_transformers.models.Pooling"}]', "path is '../x'"),
    ("modules.json", '[{"path": "3_P", "type": "sentence_transformers.models.Pooling"}]', "3_P/config.json: cannot"),
    ("1_Pooling/config.json", '{"pooling_mode_max_tokens": true}', "pooling_mode_max_tokens is true"),
    ("1_Pooling/config.json", "{}", "expected one of"),
    ("1_Pooling/config.json", '{"pooling_mode": "lasttoken"}', "pooling_mode is 'lasttoken'"),
])
def test_another_pooling_is_refused_in_one_line(tmp_path: Path, name: str, text: str, named: str) -> None:
    world = World(CASES["bert"], tmp_path)
    (tmp_path / "theirs" / name).write_text(text)
    refuse(world, "", named)


def refuse(world: World, where: str, named: str) -> None:
    save_file({"ids": world.ids, "lengths": world.lengths}, world.folder / "in.safetensors")
    done = subprocess.run([PROBE, world.folder / "theirs", world.folder / "in.safetensors",
                           world.folder / "out.safetensors"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert where in done.stderr and named in done.stderr, done.stderr
