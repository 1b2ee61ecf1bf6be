# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Folders of tools beside transformers: what open_clip and sentence-transformers write is read, and gives their own
outputs; what is no folder of ours (timm's, an open_clip with another trunk, modules behind the pooling) is refused in
one line that says what was expected."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import open_clip
import pytest
import timm
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer
from test_text_oracle import PROBE, SMALL
from timm.models.convnext import ConvNeXt
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor

TOKENS = {"vocab_size": 40, "context_length": 9, "width": 16, "heads": 2, "layers": 1}
TRUNK = {"depths": [1, 1, 2, 1], "dims": [4, 6, 8, 10]}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(35))]


def probe(folder: Path, inputs: dict[str, Tensor]) -> subprocess.CompletedProcess[str]:
    save_file(inputs, folder / "in.safetensors")
    return subprocess.run([PROBE, folder, folder / "in.safetensors", folder / "out.safetensors"],
                          capture_output=True, text=True, check=False)


def encoded(folder: Path, inputs: dict[str, Tensor]) -> tuple[Tensor, str]:
    done = probe(folder, inputs)
    assert done.returncode == 0, done.stderr
    return load_file(folder / "out.safetensors")["encoded"], done.stdout


def shaken(model: torch.nn.Module) -> torch.nn.Module:
    """Norms and biases that are no ones and zeros say whether they are used."""
    torch.manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def open_clip_model(folder: Path, projection: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    vision = {"timm_model_name": "convnext_tiny", "timm_model_pretrained": False, "timm_pool": "",
              "timm_proj": projection, "image_size": 64}
    model = open_clip.CLIP(embed_dim=12, vision_cfg=vision, text_cfg=TOKENS)
    small = ConvNeXt(in_chans=3, num_classes=0, global_pool=model.visual.trunk.head.global_pool.pool_type, **TRUNK)
    width = TRUNK["dims"][-1]
    for name, layer in list(model.visual.head.named_children()):
        if isinstance(layer, torch.nn.Linear):
            setattr(model.visual.head, name, torch.nn.Linear(width, 12, bias=layer.bias is not None))
    small.head = type(model.visual.trunk.head)(width, 0, pool_type=model.visual.trunk.head.global_pool.pool_type)
    model.visual.trunk = small
    config = {"model_type": "open_clip", "embed_dim": 12, "vision_cfg": vision | TRUNK}
    (folder / "config.json").write_text(json.dumps(config))
    shaken(model)
    save_file({name: x.contiguous() for name, x in model.state_dict().items()}, folder / "model.safetensors")
    return model, config


def test_open_clip_with_a_convnext(tmp_path: Path) -> None:
    """The text tower beside it is passed over, and that is said."""
    model, _ = open_clip_model(tmp_path, "linear")
    pixels = torch.randn(3, 3, 64, 64)
    ours, said = encoded(tmp_path, {"pixels": pixels})
    with torch.no_grad():
        expected = model.encode_image(pixels)
    assert float((ours - expected).norm() / expected.norm()) < 1e-5
    assert "passed over" in said and "transformer" in said


def sentences(folder: Path, pooling: str, *behind: torch.nn.Module) -> SentenceTransformer:
    """A folder as sentence-transformers saves one: the encoder, how it pools, and what comes behind."""
    base = folder / "base"
    shaken(transformers.BertModel(transformers.BertConfig(**SMALL))).save_pretrained(base)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    named = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), WORDS, strict=False))
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(base)
    encoder = Transformer(str(base))
    model = SentenceTransformer(modules=[encoder, Pooling(SMALL["hidden_size"], pooling), *behind], device="cpu")
    model.save(str(folder / "saved"))
    return model.eval()


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_sentence_transformers(tmp_path: Path, pooling: str) -> None:
    model = sentences(tmp_path, pooling)
    ids = torch.randint(5, 40, (3, 4))
    ours, _ = encoded(tmp_path / "saved", {"ids": ids, "lengths": torch.full((3,), 4)})
    with torch.no_grad():
        expected = model({"input_ids": ids, "attention_mask": torch.ones_like(ids)})["sentence_embedding"]
    assert float((ours - expected).norm() / expected.norm()) < 1e-5


def max_pooling(folder: Path) -> Path:
    sentences(folder, "max")
    return folder / "saved"


def a_layer_behind(folder: Path) -> Path:
    sentences(folder, "mean", Dense(SMALL["hidden_size"], 5))
    return folder / "saved"


def timm_folder(folder: Path) -> Path:
    """As timm's push_to_hf_hub writes it, locally."""
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=1, num_classes=5)
    timm.models.save_for_hf(model, folder, safe_serialization=True)
    return folder


def open_clip_vit(folder: Path) -> Path:
    """Its own Vision Transformer, not transformers' of the same weights."""
    vision = {"layers": 1, "width": 16, "head_width": 8, "patch_size": 8, "image_size": 16}
    model = open_clip.CLIP(embed_dim=12, vision_cfg=vision, text_cfg=TOKENS)
    (folder / "config.json").write_text(json.dumps({"model_type": "open_clip", "embed_dim": 12, "vision_cfg": vision}))
    save_file({name: x.contiguous() for name, x in model.state_dict().items()}, folder / "model.safetensors")
    return folder


def open_clip_as_published(folder: Path) -> Path:
    """With its own names of files, and no config.json."""
    _, config = open_clip_model(folder, "linear")
    (folder / "config.json").unlink()
    (folder / "model.safetensors").rename(folder / "open_clip_model.safetensors")
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))
    return folder


REFUSED: dict[str, tuple[Callable[[Path], Path], list[str]]] = {
    "timm": (timm_folder, ["config.json", "timm"]),
    "open_clip_vit": (open_clip_vit, ["config.json", "timm_model_name"]),
    "open_clip_as_published": (open_clip_as_published, ["config.json", "open_clip_config.json"]),
    "max_pooling": (max_pooling, ["1_Pooling/config.json", "mean"]),
    "a_layer_behind": (a_layer_behind, ["modules.json", "Dense"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_what_it_is(name: str, tmp_path: Path) -> None:
    make, expected = REFUSED[name]
    folder = make(tmp_path)
    done = probe(folder, {"pixels": torch.randn(2, 3, 32, 32)})
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done.stderr
    for words in [*expected, "expected"]:
        assert words in done.stderr, done.stderr
