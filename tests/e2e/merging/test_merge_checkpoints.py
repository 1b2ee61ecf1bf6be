# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[checkpoints] of a recipe: those of one run, as transformers' Trainer writes them, averaged in the place of a decay
of its learning rate.

The oracle never has the checkpoints' weights c: it goes through the run again, increment by increment, each times the
share w that the schedule leaves of it. torch's own mean and moving average are another."""

import json
import math
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import launch
import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

Tensors = dict[str, torch.Tensor]
STEPS = [2, 4, 6, 8, 10]
SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40, "vocab_size": 50,
         "tie_word_embeddings": False}


def train(folder: Path, *, as_adapter: bool = False) -> None:
    """folder/base, and folder/run with a checkpoint every two steps; each says in its config.json which it is."""
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))
    model.save_pretrained(folder / "base")
    if as_adapter:
        whole = transformers.LlamaForCausalLM.from_pretrained(folder / "base")
        model = get_peft_model(whole, LoraConfig(r=2, lora_alpha=6, target_modules=["q_proj", "down_proj"]))
    rows = torch.randint(50, (32, 8))
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "run"), max_steps=STEPS[-1], save_steps=2, learning_rate=1e-2, use_cpu=True,
        lr_scheduler_type="constant", per_device_train_batch_size=4, report_to=[], disable_tqdm=True)
    transformers.Trainer(model, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows]).train()
    for step in [] if as_adapter else STEPS:
        config = folder / f"run/checkpoint-{step}/config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"step": step}))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    train(folder)
    (folder / "run/checkpoint-best").mkdir()  # no checkpoint of a number of steps
    (folder / "run/checkpoint-").write_text("nor is this")
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "checkpoints"))


def recipe(folder: Path, keys: str = "", root: str = "", method: str = "linear") -> Path:
    path = folder / "recipe.toml"
    path.write_text(f'merge_method = "{method}"\nout = "out"\n{root}\n[checkpoints]\nrun = "run"\n{keys}\n')
    return path


def merged(folder: Path, keys: str = "", root: str = "") -> tuple[Tensors, str]:
    """The merged tensors, and what was printed."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    done = launch.run(1, "merge", recipe(folder, keys, root))
    assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
    return load_file(folder / "out/model.safetensors"), done.stdout


def checkpoints(folder: Path, steps: list[int]) -> list[Tensors]:
    return [load_file(folder / f"run/checkpoint-{step}/model.safetensors") for step in steps]


def run_again(models: list[Tensors], share: Callable[[int, int], float]) -> Tensors:
    """The first model and each increment behind it, times what the schedule leaves of the rate: share(i, n)."""
    result = {name: x.double() for name, x in models[0].items()}
    for i in range(1, len(models)):
        for name in result:
            result[name] += share(i, len(models)) * (models[i][name].double() - models[i - 1][name].double())
    return result


def assert_close(actual: Tensors, expected: Tensors) -> None:
    assert set(actual) == set(expected)
    for name, x in expected.items():
        assert torch.allclose(actual[name].double(), x.double(), rtol=4e-7, atol=2e-8), name


SHARES: dict[str, tuple[str, Callable[[int, int], float]]] = {
    "nothing said": ("", lambda i, n: 1 - i / n),
    "mean": ('schedule = "mean"', lambda i, n: 1 - i / n),
    "cosine": ('schedule = "cosine"', lambda i, n: math.cos(math.pi * i / n / 2) ** 2),
    "1-sqrt": ('schedule = "1-sqrt"', lambda i, n: 1 - math.sqrt(i / n)),
    "ema": ('schedule = "ema"\ndecay = 0.75', lambda i, n: 1 - 0.75 ** (n - i)),
    "ema of 0.9": ('schedule = "ema"', lambda i, n: 1 - 0.9 ** (n - i)),
}


@pytest.mark.parametrize("name", SHARES)
def test_a_merge_is_the_run_with_a_decayed_rate(folder: Path, name: str) -> None:
    keys, share = SHARES[name]
    tensors, printed = merged(folder, keys)
    assert_close(tensors, run_again(checkpoints(folder, STEPS), share))
    assert "5 checkpoints" in printed and "from 10 back to 2" in printed and "unequal" not in printed
    assert json.loads((folder / "out/config.json").read_text())["step"] == 10
    transformers.LlamaForCausalLM.from_pretrained(folder / "out")


@pytest.mark.parametrize(("keys", "averaged"), [
    ('schedule = "mean"', None), ('schedule = "ema"\ndecay = 0.6', get_ema_multi_avg_fn(0.6))])
def test_means_are_torchs(folder: Path, keys: str, averaged: Callable | None) -> None:
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).double()
    average = AveragedModel(model, multi_avg_fn=averaged)
    for state in checkpoints(folder, STEPS):
        model.load_state_dict(state)
        average.update_parameters(model)
    assert_close(merged(folder, keys)[0], average.module.state_dict())


@pytest.mark.parametrize(("keys", "steps"), [
    ("last = 3", [6, 8, 10]), ("last = 5", STEPS), ("steps = [2, 4, 8]", [2, 4, 8]),
    ("steps = [2, 4, 8]\nlast = 2", [4, 8])])
def test_some_of_them(folder: Path, keys: str, steps: list[int]) -> None:
    tensors, printed = merged(folder, keys + '\nschedule = "1-sqrt"')
    assert_close(tensors, run_again(checkpoints(folder, steps), SHARES["1-sqrt"][1]))
    assert ("unequal distances" in printed) == (steps == [2, 4, 8])
    assert json.loads((folder / "out/config.json").read_text())["step"] == steps[-1]


def test_numbers_are_sorted_as_numbers(folder: Path) -> None:
    """Links count, whatever they are of, and so do numbers with zeros before them."""
    (folder / "run/checkpoint-10").rename(folder / "elsewhere")
    (folder / "run/checkpoint-0010").symlink_to(folder / "elsewhere")
    tensors, _ = merged(folder, "last = 2")
    last = [load_file(path / "model.safetensors") for path in (folder / "run/checkpoint-8", folder / "elsewhere")]
    assert_close(tensors, run_again(last, SHARES["mean"][1]))


@pytest.mark.parametrize("keys", ["", 'schedule = "ema"\nlast = 3'])
def test_the_record_makes_it_again(folder: Path, keys: str) -> None:
    """Even where the run has gone on, and has dropped what was not averaged; and a merge of the result says in its card
    what it was made of."""
    tensors, _ = merged(folder, keys)
    record = folder / "again.toml"
    shutil.copy(folder / "out/merge.toml", record)
    said = tomllib.loads(record.read_text())["checkpoints"]
    assert said["steps"] == STEPS and said["last"] == (3 if keys else 5)
    assert f"{said['last']} checkpoints of" in record.read_text().split("merge_method")[0]
    shutil.copytree(folder / "run/checkpoint-2", folder / "run/checkpoint-12")
    if keys:
        shutil.rmtree(folder / "run/checkpoint-4")
    done = launch.run(1, "merge", record, folder / "twin")
    assert done.returncode == 0, done.stderr
    twin = load_file(folder / "twin/model.safetensors")
    assert all(torch.equal(x, twin[name]) for name, x in tensors.items())
    assert (folder / "twin/config.json").read_text() == (folder / "out/config.json").read_text()
    (folder / "next.toml").write_text('merge_method = "linear"\nout = "next"\n'
                                      'models = [ { model = "out" }, { model = "twin" } ]\n')
    assert launch.run(1, "merge", folder / "next.toml").returncode == 0
    assert "merged by `linear` from `run`" in (folder / "next/README.md").read_text()


def test_a_base_that_is_named_is_the_configurations(folder: Path) -> None:
    """With lambda the merged model is on the line from the base through the average."""
    root = 'base_model = "base"\nparameters = { lambda = 1.5 }'
    tensors, _ = merged(folder, "", root)
    base = load_file(folder / "base/model.safetensors")
    mean = run_again(checkpoints(folder, STEPS), SHARES["mean"][1])
    expected = {name: x.double() + 1.5 * (mean[name] - x.double()) for name, x in base.items()}
    assert all(torch.allclose(tensors[name].double(), x, rtol=1e-6, atol=1e-7) for name, x in expected.items())
    assert "step" not in json.loads((folder / "out/config.json").read_text())


def test_adapters_of_a_run(tmp_path: Path) -> None:
    train(tmp_path, as_adapter=True)
    done = launch.run(1, "merge", recipe(tmp_path))
    launch.complaint(done, "base_model", "checkpoint-10", "is of")
    tensors, _ = merged(tmp_path, 'schedule = "1-sqrt"', 'base_model = "base"')
    base = load_file(tmp_path / "base/model.safetensors")
    whole = []
    for step in STEPS:
        adapter = load_file(tmp_path / f"run/checkpoint-{step}/adapter_model.safetensors")
        whole.append({name: x.double() for name, x in base.items()})
        for name in whole[-1]:
            parts = [adapter.get("base_model.model." + name.replace("weight", f"lora_{side}.weight")) for side in "BA"]
            if parts[0] is not None:
                whole[-1][name] += 3 * parts[0].double() @ parts[1].double()
    expected = run_again(whole, SHARES["1-sqrt"][1])
    assert all(torch.allclose(tensors[name].double(), x, rtol=1e-6, atol=1e-7) for name, x in expected.items())
    assert any(not torch.equal(tensors[name], base[name]) for name in base)


def test_a_check_says_which_they_are(folder: Path) -> None:
    done = launch.run(1, "merge", "--check", recipe(folder, "last = 2"))
    assert done.returncode == 0 and "WRONG" not in done.stdout, done.stdout + done.stderr
    assert "note  2 checkpoints of" in done.stdout and "weights 0.5, 0.5" in done.stdout


def without_weights(folder: Path) -> None:
    (folder / "run/checkpoint-6/model.safetensors").unlink()


def file_in_its_place(folder: Path) -> None:
    shutil.rmtree(folder / "run/checkpoint-6")
    (folder / "run/checkpoint-6").write_text("no folder")


def dangling_link(folder: Path) -> None:
    (folder / "run/checkpoint-12").symlink_to("nowhere")


def one_number_twice(folder: Path) -> None:
    shutil.copytree(folder / "run/checkpoint-8", folder / "run/checkpoint-008")


def kept(count: int) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for step in STEPS[count:]:
            shutil.rmtree(folder / f"run/checkpoint-{step}")

    return remove


def nothing(folder: Path) -> None:
    pass


@pytest.mark.parametrize(("change", "keys", "root", "method", "expected"), [
    (without_weights, "", "", "linear", ["run/checkpoint-6", "neither model.safetensors"]),
    (file_in_its_place, "", "", "linear", ["checkpoints.run", "run/checkpoint-6", "no folder"]),
    (dangling_link, "", "", "linear", ["checkpoints.run", "run/checkpoint-12", "no folder"]),
    (one_number_twice, "", "", "linear", ["checkpoints.run", "checkpoint-008", "checkpoint-8"]),
    (kept(1), "", "", "linear", ["checkpoints.run", "has 1 of", "two at least"]),
    (kept(0), "", "", "linear", ["checkpoints.run", "has 0 of", "two at least"]),
    (lambda folder: shutil.rmtree(folder / "run"), "", "", "linear", ["checkpoints.run", "cannot be read"]),
    (nothing, "last = 6", "", "linear", ["checkpoints.last", "is 6", "5 checkpoints"]),
    (nothing, "last = 0", "", "linear", ["checkpoints.last", "2 to"]),
    (nothing, "last = -3", "", "linear", ["checkpoints.last", "2 to"]),
    (nothing, "last = 1", "", "linear", ["checkpoints.last", "2 to"]),
    (nothing, "steps = [4, 2]", "", "linear", ["checkpoints.steps", "2 behind 4", "ascending"]),
    (nothing, "steps = [4, 4]", "", "linear", ["checkpoints.steps", "4 behind 4"]),
    (nothing, "steps = [4, 5]", "", "linear", ["checkpoints.steps", "no checkpoint-5"]),
    (nothing, "steps = [4, 5.5]", "", "linear", ["checkpoints.steps", "5.5"]),
    (nothing, "steps = [4]", "", "linear", ["checkpoints.steps", "has 1 of", "two at least"]),
    (nothing, 'schedule = "sqrt"', "", "linear", ["checkpoints.schedule", "1-sqrt"]),
    (nothing, "decay = 0.9", "", "linear", ["checkpoints.decay", "ema", '"mean"']),
    (nothing, 'schedule = "ema"\ndecay = 1', "", "linear", ["checkpoints.decay", "0.9999"]),
    (nothing, 'schedule = "ema"\ndecay = [0.5, 0.9]', "", "linear", ["checkpoints.decay", "one number"]),
    (nothing, "lats = 3", "", "linear", ["checkpoints.lats", "did you mean checkpoints.last"]),
    (nothing, "", 'models = [ { model = "base" } ]', "linear", ["models", "beside [checkpoints]"]),
    (nothing, "", "slices = []", "linear", ["slices", "beside [checkpoints]"]),
    (nothing, "", "parameters = { weight = 2 }", "linear", ["parameters.weight", "beside [checkpoints]"]),
    (nothing, "", "parameters = { lambda = 0.5 }", "linear", ["base_model", "linear with lambda"]),
    (nothing, "", 'base_model = "base"', "ties", ["merge_method", '"ties"', '"linear"']),
])
def test_what_is_refused(folder: Path, change: Callable[[Path], None], keys: str, root: str, method: str,
                         expected: list[str]) -> None:
    change(folder)
    done = launch.run(1, "merge", recipe(folder, keys, root, method))
    launch.complaint(done, *expected)
    assert not (folder / "out").exists() and not [path for path in folder.rglob("*") if ".partial" in path.name]
