# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Heads from a text tower: the formula sentence by sentence, and what a missing library or model says."""

import json
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from errors import InputError
from pictures import clip_text

NAMES = ["cat", "a far longer-named dog", "x"]
TEMPLATES = ["a photo of a {}.", "the {}"]


def test_head_is_the_mean_of_unit_sentences(tiny_clip, monkeypatch):
    from transformers import CLIPModel, CLIPTokenizer

    model, tokenizer = CLIPModel.from_pretrained(tiny_clip).eval(), CLIPTokenizer.from_pretrained(tiny_clip)
    monkeypatch.setattr(clip_text, "BATCH", 4)
    tower = clip_text.load(str(tiny_clip))
    head = clip_text.head(tower, NAMES, TEMPLATES)
    for name, row in zip(NAMES, head, strict=True):
        total = np.zeros(12)
        for template in TEMPLATES:  # one at a time: no padding
            tokens = torch.tensor([tokenizer(template.replace("{}", name))["input_ids"]])
            with torch.inference_mode():
                hidden = model.text_model(input_ids=tokens).last_hidden_state[0, -1]
                feature = model.text_projection(hidden).double().numpy()
            total += feature / np.linalg.norm(feature)
        assert np.allclose(row, total / np.linalg.norm(total), atol=1e-6)
    assert np.isclose(tower.logit_scale, model.logit_scale.exp().item())


def test_open_clip_where_installed(monkeypatch):
    asked = []

    class Tower(torch.nn.Module):
        logit_scale = torch.tensor(3.0)

        def encode_text(self, tokens: torch.Tensor) -> torch.Tensor:
            return tokens.float()

    def create(architecture: str, pretrained: str):
        asked.append((architecture, pretrained))
        return Tower(), None, None

    def tokenizer_of(architecture: str):
        return lambda sentences: torch.tensor([[len(sentence), 3, 4] for sentence in sentences])

    fake = SimpleNamespace(create_model_and_transforms=create, get_tokenizer=tokenizer_of)
    monkeypatch.setitem(sys.modules, "open_clip", fake)
    tower = clip_text.load("open_clip:ViT-B-32/laion2b")
    assert asked == [("ViT-B-32", "laion2b")] and np.isclose(tower.logit_scale, np.exp(3))
    head = clip_text.head(tower, ["ab"], ["{}"])
    assert np.allclose(head, np.array([[2, 3, 4]]) / np.sqrt(29))


@pytest.mark.parametrize(("name", "library"), [("some/model", "transformers"), ("open_clip:ViT-B-32", "open_clip")])
def test_missing_library_is_one_line(monkeypatch, name, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=r"is not installed.*expected") as caught:
        clip_text.load(name)
    assert "\n" not in str(caught.value)


def test_missing_or_partial_model_is_one_line(tiny_clip, tmp_path):
    def copy(name: str):
        return shutil.copytree(tiny_clip, tmp_path / name)

    (tmp_path / "empty").mkdir()
    (copy("no weights") / "model.safetensors").unlink()
    (copy("cut") / "model.safetensors").write_bytes(b"abc")
    (copy("no vocabulary") / "vocab.json").unlink()
    vision = copy("vision alone") / "config.json"
    vision.write_text(json.dumps({**json.loads(vision.read_text()), "model_type": "clip_vision_model"}))
    for folder in [*tmp_path.iterdir(), tmp_path / "nowhere"]:
        with pytest.raises(InputError, match="expected a folder or hub name") as caught:
            clip_text.load(str(folder))
        assert "\n" not in str(caught.value) and str(folder) in str(caught.value), folder


def test_weights_left_to_chance_are_refused(tiny_clip, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(tiny_clip, tmp_path / "partial")
    weights = load_file(folder / "model.safetensors")
    del weights["text_projection.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"the weights lack text_projection\.weight"):
        clip_text.load(str(folder))
