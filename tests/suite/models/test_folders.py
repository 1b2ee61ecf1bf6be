# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Folders as the field's tools have written one model: names, types, parts and doubles. transformers is the oracle of
what they hold. Doubles that differ from what they double are refused."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from test_text_oracle import PROBE, SMALL
from torch import Tensor

Tensors = dict[str, Tensor]
WORDS, DECODER = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
T5 = {"vocab_size": 40, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}


def make(kind: str, folder: Path) -> Tensors:
    torch.manual_seed(3)
    model = {
        "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SMALL)),
        "encoder": lambda: transformers.BertModel(transformers.BertConfig(**SMALL)),
        "t5": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**T5)),
    }[kind]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return load_file(folder / "model.safetensors")


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
}


def probe(kind: str, folder: Path) -> subprocess.CompletedProcess[str]:
    inputs = {"ids": torch.full((2, 4), 5), "lengths": torch.full((2,), 4)}
    if kind == "bert":
        inputs["mask"] = torch.zeros(2, dtype=torch.int64)
    save_file(inputs, folder / "in.safetensors")
    return subprocess.run(
        [PROBE, folder, folder / "in.safetensors", folder / "out.safetensors", folder / "ours"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_what_transformers_reads_is_read(name: str, tmp_path: Path) -> None:
    kind, write = VARIANTS[name]
    write(make(kind, tmp_path), tmp_path)
    done = probe(kind, tmp_path)
    assert done.returncode == 0, done.stderr
    found = load_file(tmp_path / "ours/model.safetensors")
    library = {
        "bert": transformers.BertForMaskedLM,
        "encoder": transformers.BertModel,
        "t5": transformers.T5ForConditionalGeneration,
    }[kind]
    theirs = dict(library.from_pretrained(tmp_path, dtype=torch.float32).named_parameters())
    assert len(found) > 10
    for key, x in found.items():
        assert torch.equal(x, theirs[key]), key


REFUSED = {
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
