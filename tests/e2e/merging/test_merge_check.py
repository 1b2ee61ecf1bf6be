# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid merge --check: models that belong together pass, each of the ways in which they do not is named, and nothing
is written."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import launch
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40, "vocab_size": 50}
WORDS = ["<unk>", "<s>", "</s>", *(f"w{i}" for i in range(47))]


def tokenizer(folder: Path, words: list[str], kind: type = models.WordLevel, **more: str) -> None:
    vocabulary = {"vocab": {word: i for i, word in enumerate(words)}, "unk_token": "<unk>"}
    if kind is models.Unigram:
        vocabulary = {"vocab": [(word, -1.0) for word in words], "unk_id": 0}
    inner = Tokenizer(kind(**vocabulary))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    named = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"} | more
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **named).save_pretrained(folder)


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, two models of it, and a recipe."""
    folder = tmp_path_factory.mktemp("check")
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))
    model.save_pretrained(folder / "base")
    start = {name: x.clone() for name, x in model.state_dict().items()}
    for index, step in enumerate((0.001, 0.002)):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(start[name] + step * torch.randn_like(parameter))
        model.save_pretrained(folder / f"m{index}")
    for name in ("base", "m0", "m1"):
        tokenizer(folder / name, WORDS)
    entries = '[ { model = "m0" }, { model = "m1" } ]'
    (folder / "recipe.toml").write_text(
        f'merge_method = "task_arithmetic"\nbase_model = "base"\nout = "out"\nmodels = {entries}\n'
    )
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "check"))


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    done = launch.run(1, "merge", "--check", folder / "recipe.toml")
    assert not (folder / "out").exists()
    assert len(done.stdout.splitlines()) < 50 and max(map(len, done.stdout.splitlines()), default=0) <= 520
    return done


def vector(folder: Path, name: str) -> np.ndarray:
    base, model = (load_file(folder / side / "model.safetensors") for side in ("base", name))
    return np.concatenate([(model[key].float() - base[key].float()).flatten().double().numpy() for key in sorted(base)])


def test_models_that_belong_together(sound: Path) -> None:
    done = check(sound)
    assert done.returncode == 0 and "WRONG" not in done.stdout and "note" not in done.stdout, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "the models belong together"
    base = load_file(sound / "base/model.safetensors")
    (row,) = (line.split() for line in lines if line.startswith("model.layers.*.mlp.up_proj.weight"))
    for place, name in ((2, "m0"), (4, "m1")):
        model = load_file(sound / name / "model.safetensors")
        keys = [f"model.layers.{layer}.mlp.up_proj.weight" for layer in (0, 1)]
        moved, start = (sum(float(x.double().square().sum()) for x in xs)
                        for xs in ([model[key] - base[key] for key in keys], [base[key] for key in keys]))
        assert float(row[place]) == pytest.approx(100 * (moved / start) ** 0.5, rel=6e-3)
    a, b = vector(sound, "m0"), vector(sound, "m1")
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    (first,) = (line.split() for line in lines if line.startswith("[1]  "))
    assert float(first[2]) == pytest.approx(cosine, abs=6e-4)


def ratio(base: dict[str, torch.Tensor], model: dict[str, torch.Tensor], layers: range) -> float:
    """‖τ‖/‖θ0‖ in percent, over the tensors of these layers."""
    kept = [name for name in sorted(base) if layer_of(name) in layers]
    start, moved = (np.concatenate([file[name].double().numpy().ravel() for name in kept]) for file in (base, model))
    return float(100 * np.linalg.norm(moved - start) / np.linalg.norm(start))


def layer_of(name: str) -> int:
    numbers = [int(step) for step in name.split(".") if step.isdigit()]
    return numbers[0] if numbers else -1


def rows_by_layer(printed: str) -> list[tuple[range, list[float]]]:
    """The layers of each row, and what it says of each model in percent."""
    rows = []
    for line in printed.splitlines():
        if row := re.match(r"(outside layers|layers? (\d+)(?:-(\d+))?) +\d+ +(.*)$", line):
            first = -1 if row[2] is None else int(row[2])
            last = first if row[3] is None else int(row[3])
            rows.append((range(first, last + 1), [float(part) for part in row[4].replace("%", " ").split()]))
    return rows


def test_distances_by_layer(sound: Path) -> None:
    rows = rows_by_layer(check(sound).stdout)
    assert [layers for layers, _ in rows] == [range(-1, 0), range(1), range(1, 2)]
    base = load_file(sound / "base/model.safetensors")
    for layers, shown in rows:
        for name, percent in zip(("m0", "m1"), shown, strict=True):
            model = load_file(sound / name / "model.safetensors")
            assert percent == pytest.approx(ratio(base, model, layers), rel=6e-3)


def test_layers_that_stand_out_keep_their_rows(folder: Path) -> None:
    """Eighty layers: no model changed 7, m0 left 20 to 22 as they are, and m1 has 41 from elsewhere."""
    config = transformers.LlamaConfig(**SMALL | {"num_hidden_layers": 80, "hidden_size": 8, "intermediate_size": 8})
    torch.manual_seed(5)
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "base")
    base = load_file(folder / "base/model.safetensors")
    models = {}
    for name, size in (("m0", 0.0001), ("m1", 0.0002)):
        models[name] = {key: x + size * (1 + layer_of(key) / 80) * torch.randn_like(x) for key, x in base.items()}
        for key, x in base.items():
            if layer_of(key) == 7 or (name == "m0" and layer_of(key) in (20, 21, 22)):
                models[name][key] = x
            if name == "m1" and layer_of(key) == 41 and x.ndim == 2:
                models[name][key] = 0.02 * torch.randn_like(x)
        shutil.copytree(folder / "base", folder / name, dirs_exist_ok=True)
        save_file(models[name], folder / name / "model.safetensors", {"format": "pt"})
    # Norms' weights are 1, beside which matrices of 0.02 are little: the layer from elsewhere has others, too.
    models["m1"] |= {key: x + torch.randn_like(x) * 2 for key, x in base.items() if layer_of(key) == 41 and x.ndim == 1}
    save_file(models["m1"], folder / "m1/model.safetensors", {"format": "pt"})
    for name in ("base", "m0", "m1"):
        tokenizer(folder / name, WORDS)
    done = check(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = rows_by_layer(done.stdout)
    assert rows[0][0] == range(-1, 0) and len(rows) <= 9
    assert [layer for layers, _ in rows[1:] for layer in layers] == list(range(80))
    for layers, shown in rows:
        for name, percent in zip(models, shown, strict=True):
            assert percent == pytest.approx(ratio(base, models[name], layers), rel=6e-3)
    alone = {layers: shown for layers, shown in rows if layers in (range(7, 8), range(20, 23), range(41, 42))}
    assert alone[range(7, 8)] == [0, 0] and alone[range(20, 23)][0] == 0 and alone[range(41, 42)][1] > 100
    notes = [line for line in done.stdout.splitlines() if line.startswith("note ")]
    assert sum("no model changed a number of layer 7" in line for line in notes) == 1
    assert any("/m1: " in line and "layer 41" in line and "one model" in line for line in notes)
    assert not any("layers 20" in line or "/m0: " in line for line in notes)


def configured(**more: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "m1/config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | more))

    return change


def tokens(words: list[str], kind: type = models.WordLevel, both: bool = False, **more: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        if both:
            tokenizer(folder / "base", WORDS, kind)
        tokenizer(folder / "m1", words, kind, **more)

    return change


def weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        file = load_file(folder / "m1/model.safetensors")
        change(file)
        save_file(file, folder / "m1/model.safetensors", {"format": "pt"})

    return apply


def of_another_base(folder: Path) -> None:
    torch.manual_seed(99)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).save_pretrained(folder / "m1")


SWAPPED = [*WORDS[:3], WORDS[4], WORDS[3], *WORDS[5:]]
NORM = "model.norm.weight"
WRONG: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "another rotation": (configured(rope_parameters={"rope_theta": 5e5, "rope_type": "default"}), ["rope_parameters"]),
    "another activation": (configured(hidden_act="gelu"), ["hidden_act", '"gelu"', '"silu"']),
    "another architecture": (configured(model_type="qwen2"), ["model_type"]),
    "other heads": (configured(num_key_value_heads=1), ["num_key_value_heads"]),
    "a tied head": (configured(tie_word_embeddings=True), ["tie_word_embeddings"]),
    "quantised": (configured(quantization_config={"quant_method": "gptq"}), ["quantization_config", "dequantise"]),
    "another vocabulary": (tokens(SWAPPED), ["tokenizer.json", "2 of 50 tokens", '3 is "w1", and "w0"']),
    "another unigram": (tokens(SWAPPED, models.Unigram, both=True), ["tokenizer.json", "2 of 50 tokens"]),
    "NaN": (weights(lambda file: file[NORM].fill_(torch.nan)), [NORM, "NaN"]),
    "another shape": (weights(lambda file: file.update({NORM: torch.ones(5)})), [NORM, "[5]", "[24]"]),
    "a tensor that lacks": (weights(lambda file: file.pop(NORM)), [NORM, "m1"]),
    "another base": (of_another_base, ["99 % of its numbers", "fine-tuned from"]),
    "no configuration of the base": (lambda folder: (folder / "base/config.json").unlink(), ["base", "no config.json"]),
    "no JSON": (lambda folder: (folder / "m1/tokenizer.json").write_text("{"), ["m1/tokenizer.json", "expected JSON"]),
    "no weights": (lambda folder: (folder / "m1/model.safetensors").unlink(), ["m1", "neither model.safetensors"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_would_be_wrong_is_named(folder: Path, name: str) -> None:
    change, expected = WRONG[name]
    change(folder)
    done = check(folder)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "nothing was written" in done.stderr, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("WRONG ")]
    assert any(all(text in line for text in expected) for line in lines), done.stdout


def chat(folder: Path) -> None:
    (folder / "m1/chat_template.jinja").write_text("{{ messages }}")


def halved(file: dict[str, torch.Tensor]) -> None:
    file.update({name: x.to(torch.bfloat16) for name, x in file.items()})


NOTES: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "more tokens": (tokens([*WORDS, "new", "newer"]), ["2 tokens that the base has not"]),
    "another end": (tokens(WORDS, eos_token="w7"), ["eos_token", '"w7"', '"</s>"']),
    "another chat": (chat, ["another chat template"]),
    "another type": (configured(dtype="bfloat16"), ["dtype", "bfloat16"]),
    "several types": (weights(halved), ["of several types, merged in float32"]),
    "the base itself": (lambda folder: shutil.copy(folder / "base/model.safetensors", folder / "m1"), ["own numbers"]),
    "no configuration": (lambda folder: (folder / "m1/config.json").unlink(), ["no config.json to compare"]),
    "no tokenizer": (lambda folder: (folder / "m1/tokenizer.json").unlink(), ["no tokenizer.json to compare"]),
}


@pytest.mark.parametrize("name", NOTES)
def test_what_is_worth_a_look_is_said(folder: Path, name: str) -> None:
    change, expected = NOTES[name]
    change(folder)
    done = check(folder)
    assert done.returncode == 0 and "WRONG" not in done.stdout, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("note ")]
    assert any(all(text in line for text in expected) for line in lines), done.stdout


def sliced(folder: Path, method: str, *slices: list[tuple[str, int, int]], more: str = "") -> None:
    text = f'merge_method = "{method}"\n{more}'
    for sources in slices:
        text += "[[slices]]\n" + "".join(
            f'[[slices.sources]]\nmodel = "{name}"\nlayer_range = [{begin}, {end}]\n' for name, begin, end in sources)
    (folder / "recipe.toml").write_text(text)


def layers(folder: Path, name: str, kept: Callable[[str], bool]) -> np.ndarray:
    file = load_file(folder / name / "model.safetensors")
    return np.concatenate([file[key].flatten().double().numpy() for key in sorted(file) if kept(key)])


def test_slices_are_looked_at_layer_by_layer(folder: Path) -> None:
    """Norms are those of the layers that each model has in the merged one, cosines those of what both have."""
    base = 'base_model = "base"\nout = "out"\n'
    sliced(folder, "task_arithmetic", [("m0", 0, 1), ("m1", 0, 1)], [("m0", 1, 2), ("base", 1, 2)], more=base)
    done = check(folder)
    assert done.returncode == 0 and "WRONG" not in done.stdout, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    (row,) = (line.split() for line in lines if line.startswith("all "))
    for place, name, kept in ((2, "m0", lambda key: True), (4, "m1", lambda key: "layers.0" in key or "embed" in key)):
        start, model = (layers(folder, side, kept) for side in ("base", name))
        assert float(row[place]) == pytest.approx(100 * np.linalg.norm(model - start) / np.linalg.norm(start), rel=6e-3)
    a, b = (layers(folder, name, kept) - layers(folder, "base", kept) for name in ("m0", "m1"))
    (first,) = (line.split() for line in lines if line.startswith("[1]  "))
    assert float(first[2]) == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=6e-4)


def test_slices_that_do_not_fit(folder: Path) -> None:
    """A stack of layers has no θ0: each model's are compared with the first one's of the same numbers."""
    sliced(folder, "passthrough", [("m0", 0, 2)], [("m1", 0, 1)])
    done = check(folder)
    assert done.returncode == 0 and " [1] " in done.stdout and " [2] " not in done.stdout, done.stdout
    sliced(folder, "passthrough", [("m0", 0, 2)], [("m1", 1, 3)])
    done = check(folder)
    assert done.returncode == 2 and "[1, 3]" in done.stdout and "2 layers" in done.stdout, done.stdout
    of_another_base(folder)
    sliced(folder, "passthrough", [("m0", 0, 2)], [("m1", 1, 2)])
    done = check(folder)
    assert done.returncode == 2 and "fine-tuned from" in done.stdout, done.stdout


def test_layers_that_the_base_lacks_are_said(folder: Path) -> None:
    deep = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL | {"num_hidden_layers": 3}))
    first = load_file(folder / "m0/model.safetensors")
    deep.load_state_dict({name: first.get(name.replace("layers.2", "layers.1"), x)
                          for name, x in deep.state_dict().items()})
    deep.save_pretrained(folder / "deep")
    tokenizer(folder / "deep", WORDS)
    sliced(folder, "passthrough", [("m0", 0, 1)], [("deep", 1, 2)], [("deep", 2, 3)])
    done = check(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note  " in done.stdout and "m0 has 2 layers to compare with" in done.stdout
    assert 'num_hidden_layers is "3", and "2" in the base' in done.stdout


def test_nested_tokenizers_are_refused(folder: Path) -> None:
    """What an input holds bounds the memory that it takes."""
    (folder / "m1/tokenizer.json").write_text("[" * 100_000)
    done = check(folder)
    assert done.returncode == 2 and "m1/tokenizer.json" in done.stdout, done.stdout
