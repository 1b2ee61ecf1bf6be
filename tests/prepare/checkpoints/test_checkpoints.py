# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The field's pickles to Hugging Face folders: files of the same layout, made here, must give the same features."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from checkpoints import pickles, vit
from command import main

SIDE, PATCH, WIDTH, LAYERS, HEADS, FEATURES = 16, 8, 32, 2, 4, 12


class QuickGELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class Block(nn.Module):
    """Attributes in open_clip's order: a linearised model numbers its parameters by it."""

    def __init__(self, activation: type[nn.Module]) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.attn = nn.MultiheadAttention(WIDTH, HEADS)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential()
        self.mlp.add_module("c_fc", nn.Linear(WIDTH, 2 * WIDTH))
        self.mlp.add_module("gelu", activation())
        self.mlp.add_module("c_proj", nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        normed = self.ln_1(x)
        x = x + self.attn(normed, normed, normed, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Visual(nn.Module):
    def __init__(self, activation: type[nn.Module]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=False)
        self.class_embedding = nn.Parameter(torch.randn(WIDTH))
        self.positional_embedding = nn.Parameter(torch.randn((SIDE // PATCH) ** 2 + 1, WIDTH))
        self.ln_pre = nn.LayerNorm(WIDTH)
        self.transformer = nn.Module()
        self.transformer.resblocks = nn.ModuleList(Block(activation) for _ in range(LAYERS))
        self.ln_post = nn.LayerNorm(WIDTH)
        self.proj = nn.Parameter(torch.randn(WIDTH, FEATURES))

    def forward(self, pixels: Tensor) -> Tensor:
        patches = self.conv1(pixels).flatten(2).permute(2, 0, 1)
        first = self.class_embedding.expand(1, patches.shape[1], WIDTH)
        x = self.ln_pre(torch.cat([first, patches]) + self.positional_embedding[:, None])
        for block in self.transformer.resblocks:
            x = block(x)
        return self.ln_post(x[0]) @ self.proj


class Clip(nn.Module):
    """A tower with the remains of a text tower, as the papers' code leaves them."""

    def __init__(self, activation: type[nn.Module]) -> None:
        super().__init__()
        self.visual = Visual(activation)
        self.token_embedding = nn.Embedding(9, 6)
        self.positional_embedding = nn.Parameter(torch.randn(5, 6))
        self.ln_final = nn.LayerNorm(6)
        self.text_projection = nn.Parameter(torch.randn(6, FEATURES))
        self.register_buffer("attn_mask", torch.zeros(5, 5), persistent=False)
        self.logit_scale = nn.Parameter(torch.tensor(4.0))


class Encoder(nn.Module):
    unpickled = 0

    def __init__(self, activation: type[nn.Module] = QuickGELU) -> None:
        super().__init__()
        self.model = Clip(activation)
        for parameter in self.parameters():
            nn.init.normal_(parameter, 0, 0.3)
        self.train_preprocess = [print, np.float64(0.5), {"interpolation"}]  # stands for torchvision's transforms

    def __setstate__(self, state: dict) -> None:
        Encoder.unpickled += 1
        super().__setstate__(state)


class Head(nn.Linear):
    def __init__(self, unit: Tensor, scale: float) -> None:
        super().__init__(unit.shape[1], unit.shape[0])
        self.weight = nn.Parameter(unit * scale)
        nn.init.zeros_(self.bias)


def linear_state(tuned: Encoder, start: Encoder) -> dict:
    state: dict = {f"model.params.{n}": p.detach() for n, p in enumerate(tuned.parameters())}
    state |= {f"model.params0.{n}": p.detach() for n, p in enumerate(start.parameters())}
    return state | {"model_name": "ViT-B-32"}


def encoders(count: int, activation: type[nn.Module] = QuickGELU) -> list[Encoder]:
    torch.manual_seed(0)
    return [Encoder(activation).eval() for _ in range(count)]


def features(folder: Path) -> Tensor:
    from transformers import CLIPVisionModelWithProjection

    model, info = CLIPVisionModelWithProjection.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    with torch.inference_mode():
        return model.eval()(pixel_values=pixels()).image_embeds


def pixels() -> Tensor:
    return torch.randn(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


def same(folder: Path, encoder: Encoder) -> None:
    with torch.inference_mode():
        expected = encoder.model.visual(pixels())
    assert torch.allclose(features(folder), expected, atol=1e-5, rtol=1e-5)


def convert(root: Path, out: Path, *more: str) -> int:
    return main(["convert-checkpoints", "--from", str(root), "--out", str(out), *more])


def refused(root: Path, out: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    capsys.readouterr()
    assert convert(root, out, *more) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "expected" in lines[0] and "Traceback" not in lines[0]
    return lines[0]


def test_whole_modules_of_the_val_layout(tmp_path):
    start, cars, svhn = encoders(3)
    for name, tuned in (("CarsVal", cars), ("SVHNVal", svhn)):
        (tmp_path / name).mkdir()
        torch.save(start, tmp_path / name / "zeroshot.pt")
        torch.save(tuned, tmp_path / name / "finetuned.pt")
    torch.save(linear_state(svhn, start), tmp_path / "CarsVal/linear_finetuned.pt")
    before = Encoder.unpickled
    assert convert(tmp_path, tmp_path / "run", "--trust-pickle") == 0
    assert Encoder.unpickled == before  # the file's classes are here, and yet not called
    out = tmp_path / "run/checkpoints"
    same(out / "pretrained", start)
    same(out / "standard/cars", cars)
    same(out / "standard/svhn", svhn)
    same(out / "linear/cars", svhn)
    assert not (out / "linear/svhn").exists()
    config = json.loads((out / "pretrained/config.json").read_text())
    assert config["num_attention_heads"] == HEADS and config["hidden_act"] == "quick_gelu"


def test_modules_of_the_twenty_tasks_layout(tmp_path, capsys):
    start, tuned, other = encoders(3)
    for name, module in (("OxfordIIITPetVal", tuned), ("FER2013Val", other)):
        (tmp_path / name).mkdir()
        torch.save(start, tmp_path / name / "nonlinear_zeroshot.pt")
        torch.save(module, tmp_path / name / "nonlinear_finetuned.pt")
    assert convert(tmp_path, tmp_path / "run", "--trust-pickle") == 0
    out = tmp_path / "run/checkpoints"
    same(out / "pretrained", start)
    same(out / "standard/oxfordiiitpet", tuned)
    same(out / "standard/fer2013", other)
    torch.save(other, tmp_path / "FER2013Val/finetuned.pt")
    assert "one of them" in refused(tmp_path, tmp_path / "again", capsys, "--trust-pickle")
    assert not (tmp_path / "again").exists()


def test_state_dicts_of_the_root_layout(tmp_path):
    start, tuned = encoders(2, nn.GELU)
    (tmp_path / "DTD").mkdir()
    torch.save(start.state_dict(), tmp_path / "zeroshot.pt")
    torch.save({"state_dict": tuned.state_dict()}, tmp_path / "DTD/finetuned.pt")
    more = ("--attention-heads", str(HEADS), "--activation", "gelu")
    assert convert(tmp_path, tmp_path / "run", *more) == 0
    same(tmp_path / "run/checkpoints/pretrained", start)
    same(tmp_path / "run/checkpoints/standard/dtd", tuned)
    assert convert(tmp_path, tmp_path / "run", *more) == 0  # what it made it may make again


def test_module_tells_its_activation(tmp_path):
    (start,) = encoders(1, nn.GELU)
    torch.save(start, tmp_path / "zeroshot.pt", pickle_protocol=5)
    assert convert(tmp_path, tmp_path / "run", "--trust-pickle") == 0
    same(tmp_path / "run/checkpoints/pretrained", start)


def test_the_format_before_zip_files_is_refused(tmp_path, capsys):
    (start,) = encoders(1)
    for held in (start, start.state_dict()):
        torch.save(held, tmp_path / "zeroshot.pt", _use_new_zipfile_serialization=False)
        line = refused(tmp_path, tmp_path / "run", capsys, "--trust-pickle")
        assert "no zip file" in line and "torch.save(torch.load(FILE), FILE)" in line


def test_linear_files_alone_hold_the_start(tmp_path):
    start, tuned = encoders(2)
    (tmp_path / "MNISTVal").mkdir()
    torch.save(linear_state(tuned, start), tmp_path / "MNISTVal/linear_finetuned.pt")
    assert convert(tmp_path, tmp_path / "run", "--attention-heads", str(HEADS)) == 0
    same(tmp_path / "run/checkpoints/pretrained", start)
    same(tmp_path / "run/checkpoints/linear/mnist", tuned)


def test_known_order_is_that_of_the_module():
    (encoder,) = encoders(1)
    names = [name for name, _ in encoder.named_parameters()]
    assert vit.known_order(len(names)) == names
    visual = [name for name in names if name.startswith("model.visual.")]
    assert vit.known_order(len(visual)) == visual


def test_heads_become_unit_rows(tmp_path):
    (start,) = encoders(1)
    torch.save(start.state_dict(), tmp_path / "zeroshot.pt")
    unit = nn.functional.normalize(torch.randn(5, FEATURES), dim=1)
    torch.save(Head(unit, 100.0), tmp_path / "head_SUN397Val.pt")
    more = ("--attention-heads", str(HEADS), "--trust-pickle")
    assert convert(tmp_path, tmp_path / "run", *more) == 0
    with np.load(tmp_path / "run/heads/sun397.npz") as head:
        assert np.allclose(head["weight"], unit.numpy(), atol=1e-6) and np.isclose(head["logit_scale"], 100)


def test_unwanted_heads_are_not_read(tmp_path, capsys):
    (start,) = encoders(1)
    torch.save(start.state_dict(), tmp_path / "zeroshot.pt")
    for name in ("CarsVal", "SVHNVal"):
        (tmp_path / name).mkdir()
        torch.save(start.state_dict(), tmp_path / name / "finetuned.pt")
    unit = nn.functional.normalize(torch.randn(5, FEATURES), dim=1)
    for name in ("CarsVal", "ImageNet"):
        torch.save({"weight": unit}, tmp_path / f"head_{name}.pt")
    (tmp_path / "head_SVHNVal.pt").write_bytes(b"damaged")
    more = ("--attention-heads", str(HEADS))
    assert convert(tmp_path, tmp_path / "run", "--only", "cars", *more) == 0
    assert {path.stem for path in (tmp_path / "run/heads").iterdir()} == {"cars", "imagenet"}
    assert "head_SVHNVal" in refused(tmp_path, tmp_path / "all", capsys, *more)
    (tmp_path / "head_ImageNet.pt").write_bytes(b"damaged")  # every study's control needs its head
    assert "head_ImageNet" in refused(tmp_path, tmp_path / "cars", capsys, "--only", "cars", *more)


def facts_of(name: str, width: int) -> tuple[object, ...]:
    hints = vit.Hints().learn(pickles.Contents({}, words={"model_name": name}))
    facts = hints.settings(width)
    return facts[vit.HEADS][0], facts[vit.ACTIVATION][0], facts[vit.ACTIVATION][1] != vit.ASSUMED


def test_name_tells_heads_and_activation():
    assert facts_of("ViT-B-32", 768) == facts_of("ViT-B/16", 768) == (12, "quick_gelu", True)
    assert facts_of("ViT-L-14", 1024) == facts_of("ViT-L-14-336", 1024) == (16, "quick_gelu", True)
    assert facts_of("ViT-bigG-14__pretrained__laion2b_s39b_b160k", 1664) == (16, "gelu", True)
    assert facts_of("ViT-B-32__init__", 768) == (12, "gelu", True)
    assert facts_of("ViT-B-32-quickgelu__pretrained__laion400m_e32", 768) == (12, "quick_gelu", True)
    for name, width in (("ViT-B-32", 1024), ("ViT-B-32\nx", 768), ("RN50", 768), ("", 768)):
        assert facts_of(name, width) == (vit.HEADS_OF_WIDTH[width], "quick_gelu", False), name


def test_better_tellers_come_first():
    words = pickles.Contents({}, words={"model_name": "ViT-B-32__init__"})
    gelu = pickles.Inert("torch.nn.modules.activation.GELU")
    quick = pickles.Inert("open_clip.transformer.QuickGELU")
    path = "model.visual.transformer.resblocks.0.mlp.gelu"
    module = pickles.Contents({}, {path: quick})
    assert vit.Hints().learn(words).settings(768)[vit.ACTIVATION][0] == "gelu"
    assert vit.Hints().learn(words).learn(module).settings(768)[vit.ACTIVATION][0] == "quick_gelu"
    assert vit.Hints().learn(module).learn(words).settings(768)[vit.ACTIVATION][0] == "quick_gelu"
    assert vit.Hints(activation="gelu").learn(module).settings(768)[vit.ACTIVATION][0] == "gelu"
    later = vit.Hints().learn(module).learn(pickles.Contents({}, {path: gelu}))  # each module speaks for itself
    assert later.settings(768)[vit.ACTIVATION][0] == "gelu"


def test_linear_file_is_read_by_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(vit.WIDTHS, "B", WIDTH)
    monkeypatch.setitem(vit.HEADS_OF_WIDTH, WIDTH, HEADS)
    start, tuned = encoders(2, nn.GELU)
    (tmp_path / "MNISTVal").mkdir()
    state = linear_state(tuned, start) | {"model_name": "ViT-B-32__init__"}
    torch.save(state, tmp_path / "MNISTVal/linear_finetuned.pt")
    assert convert(tmp_path, tmp_path / "run") == 0
    same(tmp_path / "run/checkpoints/pretrained", start)
    same(tmp_path / "run/checkpoints/linear/mnist", tuned)
    line = capsys.readouterr().out.splitlines()[0]
    assert "gelu (by the name ViT-B-32__init__), 4 attention heads (by the name" in line


def test_late_hint_names_what_differs_and_the_option(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(vit.HEADS_OF_WIDTH, WIDTH, 2 * HEADS)
    start, tuned = encoders(2, nn.GELU)
    (tmp_path / "Cars").mkdir()
    torch.save(start.state_dict(), tmp_path / "zeroshot.pt")
    torch.save(tuned, tmp_path / "Cars/finetuned.pt")
    line = refused(tmp_path, tmp_path / "run", capsys, "--trust-pickle")
    assert "hidden_act gelu (read), num_attention_heads 4 (read)" in line
    assert "zeroshot.pt has hidden_act quick_gelu (assumed), num_attention_heads 8 (assumed)" in line
    assert "--activation gelu --attention-heads 4" in line
    options = ("--activation", "gelu", "--attention-heads", str(HEADS))
    assert convert(tmp_path, tmp_path / "run", "--trust-pickle", *options) == 0
    same(tmp_path / "run/checkpoints/pretrained", start)
    same(tmp_path / "run/checkpoints/standard/cars", tuned)


def test_first_line_tells_what_is_assumed(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(vit.HEADS_OF_WIDTH, WIDTH, HEADS)
    (start,) = encoders(1)

    def first_line(*more: str) -> str:
        assert convert(tmp_path, tmp_path / "run", *more) == 0
        return capsys.readouterr().out.splitlines()[0]

    torch.save(start.state_dict(), tmp_path / "zeroshot.pt")
    assert "activation quick_gelu (assumed), 4 attention heads (assumed);" in first_line()
    given = first_line("--activation", "quick_gelu")
    assert "quick_gelu (--activation), 4 attention heads (assumed)" in given
    torch.save(start, tmp_path / "zeroshot.pt")
    assert "activation quick_gelu (read), 4 attention heads (read);" in first_line("--trust-pickle")


def test_modules_that_differ_are_another_architecture(tmp_path, capsys):
    (start,), (tuned,) = encoders(1), encoders(1, nn.GELU)
    (tmp_path / "Cars").mkdir()
    torch.save(start, tmp_path / "zeroshot.pt")
    torch.save(tuned, tmp_path / "Cars/finetuned.pt")
    line = refused(tmp_path, tmp_path / "run", capsys, "--trust-pickle")
    assert "hidden_act gelu (read)" in line and "hidden_act quick_gelu (read)" in line
    wider = start.state_dict() | {"model.visual.proj": torch.ones(WIDTH, FEATURES + 1)}
    torch.save(wider, tmp_path / "Cars/finetuned.pt")
    line = refused(tmp_path, tmp_path / "run", capsys, "--trust-pickle")
    assert f"projection_dim {FEATURES + 1} where" in line and "--a" not in line


class Harm:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_no_code_of_a_pickle_runs(tmp_path, capsys):
    (start,) = encoders(1)
    start.harm = Harm(tmp_path / "harmed")
    torch.save(start, tmp_path / "zeroshot.pt")
    assert "--trust-pickle" in refused(tmp_path, tmp_path / "run", capsys)
    assert convert(tmp_path, tmp_path / "run", "--trust-pickle") == 0
    same(tmp_path / "run/checkpoints/pretrained", start)
    assert not (tmp_path / "harmed").exists()
    torch.save(Harm(tmp_path / "harmed"), tmp_path / "zeroshot.pt")
    assert "visual.conv1.weight" in refused(tmp_path, tmp_path / "run", capsys, "--trust-pickle")
    assert not (tmp_path / "harmed").exists()


def test_parameters_with_attributes_are_read(tmp_path):
    parameter = nn.Parameter(torch.arange(3.0))
    parameter.note = "extra"
    module = nn.Module()
    module.weight = parameter
    torch.save(module, tmp_path / "m.pt")
    assert pickles.read(tmp_path / "m.pt", True).tensors["weight"].tolist() == [0, 1, 2]


def test_bad_files_get_one_clear_line(tmp_path, capsys):
    start, other = encoders(2)
    good, out = start.state_dict(), tmp_path / "out"
    prefix = "model.visual."

    def written(name: str, **files: object) -> Path:
        root = tmp_path / name
        for path, held in files.items():
            place = root / (path.replace("__", "/") + ".pt")
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(held, bytes):
                place.write_bytes(held)
            else:
                torch.save(held, place)
        root.mkdir(exist_ok=True)
        return root

    torch.save(good, tmp_path / "whole.pt")
    whole = (tmp_path / "whole.pt").read_bytes()
    pipe = written("pipe")
    os.mkfifo(pipe / "zeroshot.pt")
    gapped = linear_state(other, start)
    del gapped["model.params.7"]
    nan = good | {f"{prefix}ln_post.bias": torch.full((WIDTH,), torch.nan)}
    cases = {
        "not a folder": (tmp_path / "nowhere", "not a folder"),
        "nothing": (written("nothing"), "no pre-trained model"),
        "pipe": (pipe, "is a pipe, a socket or a device"),
        "cut": (written("cut", zeroshot=whole[: len(whole) // 2]), "zeroshot.pt"),
        "empty": (written("empty", zeroshot=b""), "zeroshot.pt"),
        "list": (written("list", zeroshot=[1, 2]), "holds a list"),
        "other": (written("other", zeroshot={"x": torch.ones(2)}), "visual.conv1.weight"),
        "part": (written("part", zeroshot=good | {f"{prefix}attn_pool.x": torch.ones(2)}), "attn_pool.x"),
        "short": (written("short", zeroshot=good | {f"{prefix}proj": torch.ones(3, 2)}), "proj has shape"),
        "nan": (written("nan", zeroshot=nan), "ln_post.bias"),
        "gap": (written("gap", zeroshot=good, A__linear_finetuned=gapped), "without a gap"),
        "twice": (written("twice", A__finetuned=good, AVal__finetuned=good), "one folder a task"),
        "start": (
            written("start", zeroshot=good, A__linear_finetuned=linear_state(start, other)),
            "starts from another model",
        ),
        "head": (written("head", zeroshot=good, head_A={"weight": torch.tensor([[1.0], [9.0]])}), "rows of lengths"),
    }
    for name, (root, words) in cases.items():
        line = refused(root, out / name, capsys, "--attention-heads", str(HEADS))
        assert words in line, name
    root = written("good", zeroshot=good)
    assert "--attention-heads" in refused(root, out, capsys)
    assert "svhn" in refused(root, out, capsys, "--only", "svhn")
    folder = out / "checkpoints/pretrained"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"mine")
    assert "not made by" in refused(root, out, capsys, "--attention-heads", str(HEADS))
    assert (folder / "model.safetensors").read_bytes() == b"mine"
