# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Folders as the field's tools have written one model: names, types, parts, buffers, doubles, towers and heads.
transformers and torchvision, which read the same folders, are the oracles of what they hold, in parameters and in
outputs. Doubles that differ from what they double are refused, and what is passed over is said."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
import transformers
from safetensors.torch import load_file, save_file
from test_text_oracle import PROBE, SMALL
from torch import Tensor, nn

Tensors = dict[str, Tensor]
Inputs = dict[str, Tensor]
WORDS, DECODER = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
T5 = {"vocab_size": 40, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
BLOCKS = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3}
PICTURES = {**BLOCKS, "image_size": 16, "patch_size": 8}
CONVNEXT = {"hidden_sizes": [6, 10], "depths": [1, 1], "num_stages": 2, "image_size": 16, "patch_size": 2}
RESNET = {"model_type": "torchvision_resnet", "image_size": 64, "layers": [1, 1, 1, 1], "num_classes": 5}


@dataclass(frozen=True)
class Kind:
    """A model as its library makes it: the class that saves the folder, what our features are in it, and inputs."""

    maker: type
    config: Any
    features: Callable[[Any, Inputs], Tensor]
    inputs: Callable[[], Inputs]


def ids() -> Inputs:
    return {"ids": torch.randint(4, 40, (3, 4)), "lengths": torch.full((3,), 4)}


def ids_and_mask() -> Inputs:
    return ids() | {"mask": torch.tensor([0, 3, 1])}


def pixels(side: int) -> Callable[[], Inputs]:
    return lambda: {"pixels": torch.randn(3, 3, side, side)}


def hidden(model: nn.Module, given: Inputs) -> Tensor:
    return model(given["ids"]).last_hidden_state


def at_mask(states: Tensor, given: Inputs) -> Tensor:
    return states[torch.arange(len(states)), given["mask"]]


def t5_state(model: Any, given: Inputs) -> Tensor:
    start = torch.zeros(len(given["ids"]), 1, dtype=torch.long)
    state = model(input_ids=given["ids"], decoder_input_ids=start, output_hidden_states=True, use_cache=False)
    return state.decoder_hidden_states[-1][:, 0] * model.config.d_model**-0.5


def t5_of_labels(model: Any, given: Inputs) -> Tensor:
    start = torch.zeros(len(given["ids"]), 1, dtype=torch.long)
    state = model.transformer(input_ids=given["ids"], decoder_input_ids=start, use_cache=False)
    return state.last_hidden_state[:, 0] * model.config.d_model**-0.5


class ResNet(torchvision.models.ResNet):
    """With the way in and out that transformers' models have."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(torchvision.models.resnet.BasicBlock, config["layers"], num_classes=config["num_classes"])
        self.config = config

    def save_pretrained(self, folder: Path) -> None:
        save_file(self.state_dict(), folder / "model.safetensors", {"format": "pt"})
        (folder / "config.json").write_text(json.dumps(self.config))

    @classmethod
    def from_pretrained(cls, folder: Path, dtype: torch.dtype) -> "ResNet":
        model = cls(RESNET)
        model.load_state_dict(
            {k: v.to(dtype) if v.is_floating_point() else v for k, v in whole(folder).items()}, strict=False
        )
        return model


def resnet_features(model: ResNet, given: Inputs) -> Tensor:
    model.fc = nn.Identity()
    return model(given["pixels"])


def text(maker: type, config: type, features: Callable, inputs: Callable[[], Inputs] = ids, **more: object) -> Kind:
    return Kind(maker, config(**SMALL, **more), features, inputs)


def clip(maker: type, config: object, features: Callable) -> Kind:
    return Kind(maker, config, features, pixels(16))


def at_the_last_token(model: Any, given: Inputs) -> Tensor:
    return model.model(given["ids"], use_cache=False).last_hidden_state[:, -1]


def decoder(name: str, task: str = "CausalLM", **more: object) -> Kind:
    config = getattr(transformers, {"Gemma3": "Gemma3TextConfig"}.get(name, f"{name}Config"))
    small = {**BLOCKS, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "vocab_size": 40}
    maker = getattr(transformers, f"{name}For{task}")
    return Kind(maker, config(**small, max_position_embeddings=32, pad_token_id=0, **more), at_the_last_token, ids)


t = transformers
CLIP_TEXT = {**BLOCKS, "vocab_size": 40, "max_position_embeddings": 9}
KINDS = {
    "bert": text(
        t.BertForMaskedLM,
        t.BertConfig,
        lambda m, x: m.cls.predictions.transform(at_mask(hidden(m.bert, x), x)),
        ids_and_mask,
    ),
    "encoder": text(t.BertModel, t.BertConfig, lambda m, x: hidden(m, x).mean(1)),
    "bert_of_classes": text(t.BertForSequenceClassification, t.BertConfig, lambda m, x: hidden(m.bert, x).mean(1)),
    "bert_of_tokens": text(t.BertForTokenClassification, t.BertConfig, lambda m, x: hidden(m.bert, x).mean(1)),
    "bert_of_answers": text(t.BertForQuestionAnswering, t.BertConfig, lambda m, x: hidden(m.bert, x).mean(1)),
    "roberta": text(t.RobertaModel, t.RobertaConfig, lambda m, x: hidden(m, x).mean(1)),
    "roberta_of_words": text(
        t.RobertaForMaskedLM,
        t.RobertaConfig,
        lambda m, x: m.lm_head.layer_norm(nn.functional.gelu(m.lm_head.dense(at_mask(hidden(m.roberta, x), x)))),
        ids_and_mask,
    ),
    "roberta_of_classes": text(
        t.RobertaForSequenceClassification, t.RobertaConfig, lambda m, x: hidden(m.roberta, x).mean(1)
    ),
    "t5": Kind(t.T5ForConditionalGeneration, t.T5Config(**T5), t5_state, ids),
    "t5_of_classes": Kind(t.T5ForSequenceClassification, t.T5Config(**T5), t5_of_labels, ids),
    "clip_tower": clip(
        t.CLIPVisionModelWithProjection,
        t.CLIPVisionConfig(**PICTURES, projection_dim=12),
        lambda m, x: m(x["pixels"]).image_embeds,
    ),
    "clip": clip(
        t.CLIPModel,
        t.CLIPConfig(text_config=CLIP_TEXT, vision_config=PICTURES, projection_dim=12),
        lambda m, x: m.visual_projection(m.vision_model(x["pixels"]).pooler_output),
    ),
    "vit": clip(t.ViTModel, t.ViTConfig(**PICTURES), lambda m, x: m(x["pixels"]).last_hidden_state[:, 0]),
    "vit_of_classes": clip(
        t.ViTForImageClassification,
        t.ViTConfig(**PICTURES, num_labels=5),
        lambda m, x: m.vit(x["pixels"]).last_hidden_state[:, 0],
    ),
    "convnext": clip(t.ConvNextModel, t.ConvNextConfig(**CONVNEXT), lambda m, x: m(x["pixels"]).pooler_output),
    "convnext_of_classes": clip(
        t.ConvNextForImageClassification,
        t.ConvNextConfig(**CONVNEXT, num_labels=5),
        lambda m, x: m.convnext(x["pixels"]).pooler_output,
    ),
    "resnet": Kind(ResNet, RESNET, resnet_features, pixels(64)),
    "llama": decoder("Llama"),
    "llama_tied": decoder("Llama", tie_word_embeddings=True),
    "mistral": decoder("Mistral", sliding_window=2),
    "qwen2": decoder("Qwen2", tie_word_embeddings=True),
    "qwen2_of_classes": decoder("Qwen2", "SequenceClassification", tie_word_embeddings=True),
    "qwen3": decoder("Qwen3"),
    "gemma2": decoder("Gemma2", sliding_window=2),
    "gemma3": decoder("Gemma3", sliding_window=2),
}


def make(kind: str, folder: Path) -> Tensors:
    torch.manual_seed(3)
    model = KINDS[kind].maker(KINDS[kind].config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return load_file(folder / "model.safetensors")


def whole(folder: Path) -> Tensors:
    """The tensors of all files of weights in it."""
    return {name: x for file in sorted(folder.glob("model*.safetensors")) for name, x in load_file(file).items()}


def save(tensors: Tensors, folder: Path) -> None:
    save_file({name: x.contiguous() for name, x in tensors.items()}, folder / "model.safetensors", {"format": "pt"})


def in_parts(tensors: Tensors, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    files = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(tensors)}
    for file in set(files.values()):
        save_file({name: x for name, x in tensors.items() if files[name] == file}, folder / file, {"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))


def renamed(change: Callable[[str], str]) -> Callable[[Tensors, Path], None]:
    return lambda tensors, folder: save({change(name): x for name, x in tensors.items()}, folder)


def old_norms(name: str) -> str:
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def of_type(dtype: torch.dtype, write: Callable[[Tensors, Path], None] = save) -> Callable[[Tensors, Path], None]:
    return lambda tensors, folder: write({name: x.to(dtype) for name, x in tensors.items()}, folder)


def with_more(more: Callable[[Tensors], Tensors]) -> Callable[[Tensors, Path], None]:
    return lambda tensors, folder: save(tensors | {name: x.clone() for name, x in more(tensors).items()}, folder)


def llama_of_transformers_4(tensors: Tensors, folder: Path) -> None:
    """With frequencies in the file, as 4.30 wrote them, and the keys that config.json had until 5."""
    frequencies = 1 / 10000 ** (torch.arange(0, 6, 2) / 6)
    more = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": frequencies.clone() for i in range(2)}
    save(tensors | more, folder)
    said = json.loads((folder / "config.json").read_text())
    del said["rope_parameters"]
    said |= {"rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 4.0}, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(said))


def without_shared(tensors: Tensors, folder: Path) -> None:
    """As safetensors.torch.save_model leaves a T5: one of the names of a shared tensor stays, whichever it is."""
    save({name.replace("shared.weight", "decoder.embed_tokens.weight"): x for name, x in tensors.items()}, folder)


VARIANTS = {
    "old_norms": ("bert", renamed(old_norms)),
    "old_norms_in_parts": (
        "bert",
        lambda tensors, folder: in_parts({old_norms(n): x for n, x in tensors.items()}, folder),
    ),
    "parts": ("bert", in_parts),
    "float16": ("bert", of_type(torch.float16)),
    "bfloat16_in_parts": ("encoder", of_type(torch.bfloat16, in_parts)),
    "prefix": ("encoder", renamed(lambda name: "bert." + name)),
    "prefix_beside_a_head": (
        "encoder",
        lambda tensors, folder: save(
            {"bert." + name: x for name, x in tensors.items()} | {"cls.predictions.bias": torch.ones(9)}, folder
        ),
    ),
    "doubles": (
        "bert",
        with_more(
            lambda tensors: {
                DECODER: tensors[WORDS],
                "cls.predictions.decoder.bias": tensors["cls.predictions.bias"],
                "bert.embeddings.position_ids": torch.arange(12)[None],
            }
        ),
    ),
    "t5_without_shared": ("t5", without_shared),
    "t5_doubles": (
        "t5",
        with_more(
            lambda tensors: dict.fromkeys(
                ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"),
                tensors["shared.weight"],
            )
        ),
    ),
    "t5_bfloat16_in_parts": ("t5", of_type(torch.bfloat16, in_parts)),
    "roberta_positions": ("roberta", with_more(lambda tensors: {"embeddings.position_ids": torch.arange(16)[None]})),
    "clip_of_transformers_4": (
        "clip",
        with_more(
            lambda tensors: {
                "vision_model.embeddings.position_ids": torch.arange(5)[None],
                "text_model.embeddings.position_ids": torch.arange(9)[None],
            }
        ),
    ),
    "vit_without_a_prefix": (
        "vit_of_classes",
        renamed(lambda name: name.removeprefix("vit.")),
    ),
    "convnext_with_a_prefix": ("convnext", renamed(lambda name: "convnext." + name)),
    "resnet_counters": ("resnet", save),
    "llama_of_transformers_4": ("llama", llama_of_transformers_4),
    "llama_doubles": (
        "llama_tied",
        with_more(lambda tensors: {"lm_head.weight": tensors["model.embed_tokens.weight"]}),
    ),
    "llama_without_a_prefix": ("llama_tied", renamed(lambda name: name.removeprefix("model."))),
}
for _kind in KINDS:  # each as its library saves it, in parts, and in half precision
    VARIANTS[_kind] = (_kind, lambda tensors, folder: None)
    VARIANTS[f"{_kind}_in_parts"] = (_kind, in_parts)
    VARIANTS[f"{_kind}_bfloat16"] = (
        _kind,
        lambda tensors, folder: save(
            {name: x.to(torch.bfloat16) if x.is_floating_point() else x for name, x in tensors.items()}, folder
        ),
    )

# What is said of a folder though it is read.
NOTES = {
    "clip": ["passed over", "logit_scale, text_model, text_projection"],
    "clip_of_transformers_4": ["passed over", "logit_scale, text_model, text_projection"],
    "bert_of_classes": ["4 tensors", "passed over: bert.pooler, classifier"],
    "bert_of_tokens": ["passed over: classifier"],
    "bert_of_answers": ["passed over: qa_outputs"],
    "roberta_of_classes": ["4 tensors", "passed over: classifier"],
    "t5_of_classes": ["4 tensors", "passed over: classification_head"],
    "parts_of_another_size": ["total_size is 1, and the parts' tensors have", "not used"],
    "encoder": ["2 tensors", "passed over: pooler"],
    "t5": [],
    "vit_of_classes": [],
    "resnet": [],
    "llama": [],
    "llama_of_transformers_4": [],
    "llama_doubles": [],
    "qwen2_of_classes": ["1 tensor", "passed over: score"],
}


def of_another_size(tensors: Tensors, folder: Path) -> None:
    in_parts(tensors, folder)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"metadata": {"total_size": 1}}))


VARIANTS["parts_of_another_size"] = ("t5", of_another_size)


def probe(kind: str, folder: Path) -> subprocess.CompletedProcess[str]:
    torch.manual_seed(5)
    save_file(KINDS[kind].inputs(), folder / "in.safetensors")
    return subprocess.run(
        [PROBE, folder, folder / "in.safetensors", folder / "out.safetensors", folder / "ours"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_what_the_library_reads_is_read(name: str, tmp_path: Path) -> None:
    kind, write = VARIANTS[name]
    write(make(kind, tmp_path), tmp_path)
    done = probe(kind, tmp_path)
    assert done.returncode == 0, done.stderr
    given, of = load_file(tmp_path / "in.safetensors"), KINDS[kind]
    model = of.maker.from_pretrained(tmp_path, dtype=torch.float32).eval()
    theirs = dict(model.named_parameters())
    ours = load_file(tmp_path / "ours/model.safetensors")
    assert len(ours) > 10
    alike = [key for key in ours if key in theirs]
    assert all(torch.equal(ours[key], theirs[key]) for key in alike)
    with torch.no_grad():
        expected = of.features(model, given)
    encoded = load_file(tmp_path / "out.safetensors")["encoded"]
    assert float((encoded - expected).norm() / expected.norm()) < 1e-5
    if name in NOTES:
        assert bool(NOTES[name]) == bool(done.stdout), done.stdout
        assert all(word in done.stdout for word in NOTES[name]), done.stdout


REFUSED = {
    "tied_head": (
        "llama_tied",
        with_more(lambda tensors: {"lm_head.weight": tensors["model.embed_tokens.weight"] + 1}),
        ["lm_head.weight", "model.embed_tokens.weight", "differs"],
    ),
    "decoder": ("bert", with_more(lambda tensors: {DECODER: tensors[WORDS] + 1}), [DECODER, WORDS, "differs"]),
    "bias": (
        "bert",
        with_more(lambda tensors: {"cls.predictions.decoder.bias": tensors["cls.predictions.bias"] + 1}),
        ["cls.predictions.decoder.bias", "differs"],
    ),
    "positions": (
        "bert",
        with_more(lambda tensors: {"bert.embeddings.position_ids": torch.arange(12) + 1}),
        ["bert.embeddings.position_ids", "0, 1, 2"],
    ),
    "embed": (
        "t5",
        with_more(lambda tensors: {"encoder.embed_tokens.weight": tensors["shared.weight"] * 2}),
        ["encoder.embed_tokens.weight", "shared.weight", "differs"],
    ),
    "unknown": (
        "bert",
        with_more(lambda tensors: {"adapter.weight": torch.ones(3)}),
        ["adapter.weight", "no BertForMaskedLM"],
    ),
    "another_head": (
        "bert_of_classes",
        with_more(lambda tensors: {"regressor.weight": torch.ones(3)}),
        ["regressor.weight", "no BertModel"],
    ),
    "clip_positions": (
        "clip",
        with_more(lambda tensors: {"vision_model.embeddings.position_ids": torch.arange(5)[None] + 1}),
        ["vision_model.embeddings.position_ids", "0, 1, 2"],
    ),
    "no_encoder": (
        "bert_of_classes",
        lambda tensors, folder: save({n: x for n, x in tensors.items() if "layer.1" not in n}, folder),
        ["bert.encoder.layer.1", "is missing"],
    ),
    "both_names": (
        "bert",
        with_more(lambda tensors: {old_norms(n): x for n, x in tensors.items() if "LayerNorm" in n}),
        ["LayerNorm.beta"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_differs_from_what_it_doubles_is_refused(name: str, tmp_path: Path) -> None:
    kind, write, expected = REFUSED[name]
    write(make(kind, tmp_path), tmp_path)
    done = probe(kind, tmp_path)
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done.stderr
    for text in expected:
        assert text in done.stderr, done.stderr
