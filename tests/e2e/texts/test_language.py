# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Texts from end to end: packed by jobs/prepare text, measured by every experiment on a small BERT, computed again."""

import json
from pathlib import Path

import analysis_command
import h5py
import numpy as np
import pytest
import torch
from compare import differing, numbers
from launch import measure, run
from safetensors.numpy import load_file
from taugrid_analysis.quantities.merging import data_recompute
from taugrid_analysis.recompute import texts
from taugrid_analysis.recompute.oracle import Oracle
from text_worlds import TextWorld, pack, refused_in_one_line
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel
from world import EXPERIMENT, PAPERS, write_task

WORDS = [f"w{i}" for i in range(60)]
TASKS = {"moods": 3, "topics": 4, "pairs": 2, "control": 4}


def write_model(folder: Path) -> None:
    torch.manual_seed(11)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    model = BertModel(BertConfig(vocab_size=len(vocabulary), hidden_size=24, intermediate_size=40, num_hidden_layers=3,
                                 num_attention_heads=3, max_position_embeddings=14))
    with torch.no_grad():  # away from the initial zeros and ones, and from a nearly linear network
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


def write_texts(folder: Path, name: str, rng: np.random.Generator) -> None:
    """A class prefers a few words; texts have any length."""
    classes = TASKS[name]
    folder.mkdir(parents=True)
    preferred = rng.choice(WORDS, (classes, 4))

    def text(label: int) -> str:
        words = rng.choice(WORDS, rng.integers(2, 11))
        chosen = rng.random(len(words)) < 0.7
        words[chosen] = rng.choice(preferred[label], chosen.sum())
        return " ".join(words)

    for split, rows in {"train": 70, "dev": 30, "test": 40}.items():
        labels = rng.permutation(np.arange(rows) % classes)
        lines = [[f"w{c}", text(c), *([text(c)] if name == "pairs" else [])] for c in labels]
        (folder / f"{split}.tsv").write_text("\n".join("\t".join(line) for line in lines) + "\n")


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> TextWorld:
    folder = tmp_path_factory.mktemp("language")
    world, rng = TextWorld(folder), np.random.default_rng(3)
    write_model(folder / "model")
    calls = []
    for name in TASKS:
        write_texts(folder / "texts" / name, name, rng)
        calls.append(["text", f"{folder}/texts/{name}", "--label", "1", "--text", "2", "--tokens", "14", "--model",
                      f"{folder}/model", "--out", f"{folder}/data", *(["--second", "3"] if name == "pairs" else [])])
    pack(calls)
    for name in ("moods", "pairs"):  # as jobs/prepare language says of its tasks
        with h5py.File(world.task(name), "r+") as file:
            file.attrs["group"] = f"of {name}"
    text = PAPERS
    for old, new in {'["stripes", "blobs", "corners"]': '["moods", "topics", "pairs"]', '"plaids"': '"control"',
                     'name = "papers"': 'name = "language"'}.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    world.experiment.write_text(text)
    return world


@pytest.fixture(scope="session")
def done(world: TextWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that is measured of images, on 2 ranks."""
    folder = tmp_path_factory.mktemp("run") / "reference"
    measure(world.experiment, folder)
    return folder


def test_training_helps(done: Path) -> None:
    with h5py.File(done / "results.h5") as file:
        assert file["model"].attrs["architecture"] == "BertModel"
        assert [group.decode() for group in file["tasks/group"][()]] == ["of moods", "", "of pairs"]
        for regime in ("standard", "linear", "attention"):
            loss = file[f"training/{regime}/loss"][()]
            assert (loss[:, -5:].mean(1) < loss[:, :5].mean(1)).all()


def test_every_group_of_the_run_holds_computed_again(done: Path) -> None:
    process = analysis_command.called("recompute", done, "--points", "25")
    assert process.returncode == 0, process.stdout + process.stderr
    with h5py.File(done / "results.h5") as file:
        for group in file:
            assert f"\n{group}: " in process.stdout, group
    assert "does not know" not in process.stdout
    assert "numbers hold" in process.stdout.splitlines()[-1]


def fine_tuned(world: TextWorld, *tasks: str) -> str:
    """An experiment's beginning, up to the models of these tasks, with few steps."""
    text = EXPERIMENT.split("[similarity]")[0]
    for old, new in {'["stripes", "blobs", "corners"]': json.dumps(tasks), "steps = 25": "steps = 8",
                     '"model"': f'"{world.folder}/model"', '"data"': f'"{world.folder}/data"'}.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_layers_above_frozen_ones_are_compared_without_running_these_again(world: TextWorld, tmp_path: Path) -> None:
    """To rounding: behind frozen layers, which run once a text, texts have other neighbours."""
    experiment = tmp_path / "layers.toml"
    experiment.write_text(fine_tuned(world, "moods", "topics") + """
[linearity]
alpha = [0.5]
lambda = [0.4]
batch = 10
points = 30
""")
    frozen = ("--set", "finetune.first_stage=2", "--set")
    every = numbers(measure(experiment, tmp_path / "all", *frozen, "linearity.layers=[0, 1, 2, 3, 4]"))
    above = numbers(measure(experiment, tmp_path / "above", *frozen, "linearity.layers=[1, 2, 3, 4]"))
    for regime in ("standard", "linear"):
        for name in ("baseline", "error"):
            path = f"linearity/{regime}/{name}"
            np.testing.assert_allclose(above[path][:, 1:], every[path][:, 2:], rtol=2e-3, atol=2e-5, err_msg=path)
            # Of layer 1, which is frozen, models do not differ.
            assert (every[f"linearity/{regime}/baseline"][:, 1, ..., 0] > 1 - 1e-6).all()
    counted = []
    for layers in ("[0, 1, 2, 3, 4]", "[1, 2, 3, 4]"):
        path = tmp_path / "plan.json"
        done = run(1, "plan", experiment, *frozen, f"linearity.layers={layers}", "--ranks", "1", "--json", path)
        assert done.returncode == 0, done.stderr
        units = json.loads(path.read_text())["units"]
        counted.append(sum(unit["flops"] for unit in units if unit["key"].startswith("layer_products/")))
    # Four of five layers' comparisons alone would leave four fifths or more.
    assert 0 < counted[1] < 0.75 * counted[0]


def test_merging_with_data_of_texts(world: TextWorld, tmp_path: Path) -> None:
    """Without padding: hooks on the layers and torch.func leave it out."""
    experiment = tmp_path / "merging.toml"
    experiment.write_text(fine_tuned(world, "moods", "topics", "pairs") + """
[merging]
methods = ["fisher", "regmean", "adamerging"]
[merging.fisher]
points = 12
chunk = 5
[merging.regmean]
points = 30
chunk = 9
[merging.adamerging]
steps = 4
batch = 9
learning_rate = 0.02
[bases]
clusters = [2]
random = 2
[bases.merge_out]
method = "regmean"
points = 30
""")
    measure(experiment, tmp_path / "run")
    for group in ("merging", "bases"):
        process = analysis_command.called("recompute", tmp_path / "run", "--points", "100", "--only", group)
        assert process.returncode == 0, process.stdout + process.stderr
    assert "\nbases: accuracy " in process.stdout
    oracle = Oracle(tmp_path / "run")
    for regime in ("standard", "linear"):
        for method in ("fisher", "regmean", "adamerging"):
            settings = oracle.inputs.config["merging"][method]
            tau = data_recompute.METHODS[method](oracle, method, regime, settings)
            expected = np.concatenate([tau[name].numpy().ravel() for name in texts.in_order(tau)])
            ours = load_file(tmp_path / "run" / "units" / f"merging__{method}__{regime}.safetensors")["tau"]
            assert np.abs(ours - expected).max() < 5e-3 * np.sqrt(np.mean(expected**2)), (method, regime)


def test_one_rank_gives_the_same_and_frozen_layers_run_once(world: TextWorld, tmp_path: Path) -> None:
    """One rank, without the memory in which outputs of frozen layers are kept, gives the same numbers."""
    frozen = ("--set", "finetune.first_stage=2", "--set",
              'finetune.regimes=["standard", "linear", "tau_jp", "multitask"]')
    kept = measure(world.experiment, tmp_path / "kept", *frozen)
    again = measure(world.experiment, tmp_path / "again", *frozen, "--set", "run.memory=1e-6", ranks=1)
    assert [name for name in differing(numbers(kept), numbers(again)) if not name.endswith("peak_memory")] == []


def test_checkpoints_are_models_that_transformers_loads(world: TextWorld, done: Path) -> None:
    folders = (world.folder / "model", done / "checkpoints" / "attention" / "moods")
    before, after = (BertModel.from_pretrained(each, add_pooling_layer=False).state_dict() for each in folders)
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    matrices = {name for name in before if name.endswith("weight") and "Norm" not in name}
    assert changed == {name for name in matrices if "attention" in name}


def _edit(world: TextWorld, name: str, path: str, value: int) -> None:
    with h5py.File(world.task(name), "r+") as file:
        file[path][0, 0] = value


def _edit_length(world: TextWorld, name: str, value: int) -> None:
    with h5py.File(world.task(name), "r+") as file:
        file["test/lengths"][0] = value


REFUSED = {
    "ids beyond the vocabulary": (lambda w: _edit(w, "moods", "test/inputs", 64), "holds token 64; the model"),
    "types beyond the model's": (lambda w: _edit(w, "pairs", "train/types", 2), "row 0 holds 2; expected 0 … 1"),
    "images": (lambda w: write_task(w.task("moods"), "stripes", np.random.default_rng(0)), "holds images; the model"),
    "no token": (lambda w: _edit_length(w, "moods", 0), "row 0 holds 0; expected 1 … "),
    "another's tokenizer": (lambda w: (w.folder / "model" / "tokenizer.json").write_text("{}"), "tokenizer.json has "),
    "another's pooling": (lambda w: (w.folder / "model" / "modules.json").write_text("{}"), "is not a JSON list"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_in_one_line(world: TextWorld, tmp_path: Path, case: str) -> None:
    change, expected = REFUSED[case]
    refused_in_one_line(world, change, expected, tmp_path, ranks=2)


def test_one_type_of_tokens_cannot_tell_second_texts(world: TextWorld, tmp_path: Path) -> None:
    """A model of one type, whose folder has no tokenizer."""
    config = json.loads((world.folder / "model" / "config.json").read_text())
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | {"type_vocab_size": 1}))
    arguments = ("--set", f"model.path={tmp_path / 'model'}", "--set", "model.init=random")
    refused = run(1, "run", world.experiment, "--run-dir", tmp_path / "run", *arguments)
    assert refused.returncode == 2 and "has one type" in refused.stderr, refused.stderr
