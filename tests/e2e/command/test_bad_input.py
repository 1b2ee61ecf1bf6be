# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Wrong input: one line that says what, where and what was expected; exit code 2; nothing lost or overwritten."""

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest
from launch import complaint, given_by, run
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from world import World

CORES = os.cpu_count() or 1
BIAS = "vision_model.encoder.layers.0.mlp.fc1.bias"


@pytest.fixture
def world_copy(world: World, tmp_path: Path) -> World:
    """A copy of the world that a test may spoil."""
    return World(Path(shutil.copytree(world.folder, tmp_path / "world")))


def refused(world: World, folder: Path, *expected: str | Path, arguments: Sequence[str] = (), ranks: int = 1) -> None:
    """Asserts a refusal. One rank starts three times as fast as two; some tests of each kind see that several ranks say
    one line too."""
    complaint(run(ranks, "run", world.experiment, "--run-dir", folder, *arguments), *expected)
    assert not (folder / "results.h5").exists()


def change_weights(world: World, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    tensors = load_file(world.weights)
    change(tensors)
    save_file(tensors, world.weights, {"format": "pt"})


def change_header(world: World, change: Callable[[dict], None]) -> None:
    whole = world.weights.read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8:8 + size])
    change(header)
    text = json.dumps(header).encode()
    world.weights.write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + size:])


SETTINGS = [
    ("linearity.layers=[1, 9]", ["linearity.layers", "has 9", "0 (the embedding), 1 to 2 (its stages) and 3"]),
    ("linearity.layers=[-1, 1]", ["linearity.layers", "has -1", "0 (the embedding), 1 to 2 (its stages) and 3"]),
    ("linearity.layers=[1.5]", ["has 1.5"]),
    ("stitching.blocks=[1, 3]", ["stitching.blocks", "has 3", "the model's blocks are 1 to 2"]),
    ("stitching.blocks=[0]", ["has 0"]),
        ("linearity.lambda=[0.4, 0.4]", ["linearity.lambda", "holds 0.4 twice"]),
    ("linearity.layers=[2, 1]", ["does not ascend"]),
    ('finetune.regimes=["attension"]', ["attension", "did you mean", "attention"]),
    ('finetune.regimes=["posthoc"]', ["posthoc needs", "standard", 'finetune.regimes=["standard", "posthoc"]']),
    ('finetune.regimes=["linear", "tau_jp_continue", "attention_posthoc"]', ["attention_posthoc needs", "attention"]),
    ('finetune.regimes=["multitask"]\nfinetune.batch=2', ["multitask", "3 tasks"]),
    ("finetune.penalty_form=cubed", ["penalty_form", "squared", "norm"]),
    ("finetune.penalty_form=2", ["penalty_form", "squared"]),
    ("finetune.linear.penalty_others=median", ["penalty_others", "sum", "mean"]),
    ("finetune.penalty_tasks=all", ["penalty_tasks", "regime", "partner"]),
    ('finetune.penalty_tasks=partner\nfinetune.regimes=["tau_jp"]',
     ["penalty_tasks", "tau_jp", "stripes is in 2", "data.pairs"]),
    ("finetune.random_crop=0", ["random_crop", "0.01", "1"]),
    ("finetune.random_crop=1.5", ["random_crop", "0.01", "1"]),
    ("finetune.random_crop=true", ["random_crop", "number"]),
    ("finetune.random_crop=[0.9, 1.0]", ["random_crop", "number"]),
    ("finetune.trace_every=0", ["trace_every", "1"]),
    ("data.control=blobs", ["control", "blobs", "also one of the tasks"]),
    ("data.control=nowhere", ["nowhere.h5"]),
    ("addition.alpha=[]", ["alpha"]),
    ("addition.alpha=[0.0, 0.5]", ["alpha", "one-shot"]),
    ("negation.alpha=[0.5]", ["negation", "data.control"]),
    ('ntk.init=["pretrianed"]', ["pretrianed", "pretrained"]),
    ("ntk.points=31", ["ntk.points", "31", "60 training images", "disjoint", "at most 30", "null_draws = 0"]),
    ("ntk.points=61\nntk.null_draws=0", ["ntk.points", "60"]),
    ("ntk.null_draws=10", ["ntk.null_draws", "11 disjoint samples of 6 points", "60 training images", "at most 9"]),
    ("ntk.null_draws=-1", ["ntk.null_draws", "-1"]),
    ("disentanglement.split=train", ["disentanglement.split", "train", "validation"]),
    # More than this host has.
    (f"run.threads_per_rank={4 * CORES + 1}", ["run.threads_per_rank", f"{4 * CORES + 1}", "cores"]),
    ("run.precision=tf32", ["run.precision", "tf32", "float32, bf16 or bf16_products"]),
]
CONFIGURATIONS = [
    ('data.tasks=["blobs", "stripes", "blobs"]', ["data.tasks", "blobs"]),
    ("finetune.learing_rate=1e-3", ["finetune.learing_rate", "learning_rate"]),
    ("disentangelment.points=4", ["disentangelment", "disentanglement"]),
    ("disentanglement.alpha=[]", ["disentanglement.alpha"]),
    ("disentanglement.alpha={ from = -3, to = 3, count = 0 }", ["disentanglement.alpha", "count"]),
    ("run.ranks_per_unit=3", ["run.ranks_per_unit", "3", "2 ranks"]),
    ("finetune.steps=-1", ["finetune.steps", "-1"]),
    ("finetune.steps=1000000000", ["finetune.steps", "1000000000", "1 to 1e7"]),
    ("finetune.batch=1000001", ["finetune.batch", "1e6"]),
    ("run.threads_per_rank=1025", ["run.threads_per_rank", "1024"]),
    ("variants.seeds=1000", ["data.tasks", "[variants] make 3000 tasks", "at most 2000"]),
    ("variants.seeds=10000\nvariants.steps=[1, 2, 3, 4]", ["variants.seeds", "more than 100000 models"]),
    ('finetune.steps="many"', ["finetune.steps", "many"]),
    ('finetune.regimes=["lazy"]', ["finetune.regimes", "lazy", "standard", "linear"]),
    ("finetune.steps", ["finetune.steps", "key=value"]),
    ('data.pairs="some"', ["data.pairs", "some", '"all"', "TASK+TASK"]),
    ("addition.alpha=[0, 1, 1e38]", ["addition.alpha", "from -1000 to 1000"]),
    ("disentanglement.alpha=[0, 1e38]", ["disentanglement.alpha", "from -1000 to 1000"]),
    ("similarity.loss_gap_alpha=1e300", ["similarity.loss_gap_alpha", "from -1000 to 1000"]),
    # Names become folders: one that leads elsewhere would have all regimes write into the same.
    ('data.tasks=["../data/blobs", "stripes"]', ["data.tasks", "../data/blobs", "plain name"]),
    ('data.control="../data/plaids"', ["data.control", "../data/plaids", "plain name"]),
    ("run.name=../elsewhere", ["run.name", "../elsewhere", "plain name"]),
    ("finetune.warmup_steps=26", ["finetune.warmup_steps", "26", "at most steps, 25"]),
    ("finetune.steps=2", ["finetune.warmup_steps", "3", "at most steps, 2"]),
    ("finetune.linear.steps=2", ["finetune.linear.warmup_steps", "3, where it is not set", "at most steps, 2"]),
]


@pytest.fixture(scope="module")
def answers(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future]]:
    """What the program answers to each wrong setting; several are asked at once. There is one rank, but where the
    setting is about ranks: what several say of wrong input is seen below."""
    base = tmp_path_factory.mktemp("settings")

    def ask(place: int, setting: str) -> tuple[Path, subprocess.CompletedProcess[str]]:
        arguments = [word for line in setting.split("\n") for word in ("--set", line)]
        ranks = 2 if "ranks" in setting else 1
        return base / str(place), run(ranks, "run", world.experiment, "--run-dir", base / str(place), *arguments)

    with ThreadPoolExecutor(4) as several:
        asked = enumerate(setting for setting, _ in (*SETTINGS, *CONFIGURATIONS))
        yield {setting: several.submit(ask, place, setting) for place, setting in asked}


@pytest.mark.parametrize(("setting", "expected"), SETTINGS)
def test_a_wrong_setting(answers: dict[str, Future], setting: str, expected: list[str]) -> None:
    folder, said = answers[setting].result()
    complaint(said, *expected)
    assert not (folder / "results.h5").exists()


@pytest.mark.parametrize(("count", "expected"), [
    (500, ["data.pairs", '"all"', "124750", "at most 100000"]),
    (2001, ["data.tasks", "2001 tasks", "at most 2000"]),
    (100_000, ["data.tasks", "100000 tasks"]),
])
def test_more_tasks_than_memory_could_hold_pairs_of(world: World, tmp_path: Path, count: int,
                                                    expected: list[str]) -> None:
    tasks = ", ".join(f'"t{number}"' for number in range(count))
    text = world.experiment.read_text().replace('"stripes", "blobs", "corners"', tasks)
    experiment = world.elsewhere(tmp_path / "many.toml", text)
    for arguments in (("--dry-run",), ("--run-dir", tmp_path / "run")):
        complaint(run(1, "run", experiment, *arguments), *expected)
    assert not (tmp_path / "run").exists()


def test_more_points_at_once_than_memory_holds(world_copy: World, tmp_path: Path) -> None:
    """Said before any memory is taken for them, and with the keys that bound it."""
    change_shape(world_copy, intermediate_size=100_000)
    settings = ("--set", "model.init=random", "--set", "finetune.batch=1000000")
    refused(world_copy, tmp_path / "run", "finetune/", "GiB at once", "[finetune] batch", arguments=settings)


def test_a_line_is_short_whatever_the_input(world_copy: World, tmp_path: Path) -> None:
    """Long names lose their middle."""
    name = "n" * 1_000_000
    world_copy.experiment.write_text(world_copy.experiment.read_text() + f"\n[{name}]\nx = 1\n")
    done = run(1, "run", world_copy.experiment, "--run-dir", tmp_path / "run")
    complaint(done, world_copy.experiment, "unknown section [nnn", "…")
    assert len(done.stderr.rstrip("\n")) <= 500
    change_shape(world_copy, model_type=name)
    world_copy.experiment.write_text(world_copy.experiment.read_text().split(f"\n[{name}")[0])
    done = run(1, "run", world_copy.experiment, "--run-dir", tmp_path / "run")
    complaint(done, world_copy.model / "config.json", "model_type is 'nnn", "expected one of bert")
    assert len(done.stderr.rstrip("\n")) <= 500
    done = run(1, "run", world_copy.experiment, "--" + name[:100_000])
    complaint(done, "--help")
    assert len(done.stderr.rstrip("\n")) <= 500


def test_a_task_without_a_validation_split(world_copy: World, tmp_path: Path) -> None:
    with h5py.File(world_copy.task("blobs"), "a") as file:
        del file["validation"]
    refused(world_copy, tmp_path / "run", world_copy.task("blobs"), "/validation")


def test_given_checkpoints(world_copy: World, run_folder: Path, tmp_path: Path) -> None:
    given = Path(shutil.copytree(run_folder / "checkpoints", tmp_path / "given"))

    def expect(*expected: str | Path, settings: tuple[str, ...], folder: str | Path = given) -> None:
        settings = (*settings, f"finetune.checkpoints={folder}")
        refused(world_copy, tmp_path / "run", *expected, arguments=tuple(w for s in settings for w in ("--set", s)))

    expect("finetune.given", settings=())
    expect("nowhere", settings=('finetune.given=["standard"]',), folder="/nowhere")
    other_start = ('finetune.given=["standard", "linear"]', "model.init=random")
    expect(given / "pretrained", "is not the model", settings=other_start)
    shutil.rmtree(given / "pretrained")
    expect("from another θ0", settings=other_start)
    assert not (tmp_path / "run").exists()
    (given / "standard" / "blobs" / "model.safetensors").unlink()
    expect("standard/blobs", "is not there", settings=('finetune.given=["standard"]',))
    shutil.copytree(given / "linear" / "blobs", given / "pretrained")
    expect(given / "pretrained", settings=('finetune.given=["linear"]',))
    complaint(run(2, "run", world_copy.experiment, "--run-dir", tmp_path / "run", "--set", 'finetune.given=["linear"]'),
              "finetune.checkpoints")


def halved(tensors: dict[str, np.ndarray]) -> None:
    tensors.update({name: x.astype(np.float16) for name, x in tensors.items() if x.dtype == np.float32})


@pytest.mark.parametrize(("change", "theta0", "expected"), [
    (lambda t: t.update({BIAS: t[BIAS][:-1]}), None, [BIAS, "[47]", "expected [48], as in "]),
    (lambda t: t.__delitem__(BIAS), None, [BIAS, "is missing", "config.json asks for it"]),
    (lambda t: t.update({"more": t[BIAS]}), None, ["more", "CLIPVisionModelWithProjection", "as in "]),
    (halved, None, ["has type Half; expected Float, as in ", "rounding"]),
    (lambda t: None, "0123456789abcdef", ["from another θ0 (0123456789abcdef)"]),
], ids=["shape", "missing", "more", "half", "theta0"])
def test_a_given_checkpoint_that_does_not_fit(world_copy: World, run_folder: Path, tmp_path: Path, theta0: str | None,
                                              change: Callable[[dict[str, np.ndarray]], None],
                                              expected: list[str]) -> None:
    """The last of them: it is refused before the run has a folder, and both models are named."""
    shutil.copytree(run_folder / "checkpoints", tmp_path / "giver" / "checkpoints")
    given = given_by(tmp_path / "giver")
    weights = tmp_path / "giver" / "checkpoints" / "linear" / "corners" / "model.safetensors"
    with safe_open(weights, "np") as file:
        metadata = file.metadata()
    tensors = load_file(weights)
    change(tensors)
    save_file(tensors, weights, metadata | ({"theta0": theta0} if theta0 else {}))
    expected = [*expected, str(weights.parent), str(world_copy.model)]
    refused(world_copy, tmp_path / "run", *expected, arguments=given, ranks=2 if change is halved else 1)
    assert not (tmp_path / "run").exists()
    dry = run(1, "run", world_copy.experiment, "--dry-run", *given)
    if theta0 is None:  # which a dry run does not read
        complaint(dry, *expected)
    else:
        assert dry.returncode == 0, dry.stderr


def test_given_checkpoints_more_exact_than_the_model(world_copy: World, run_folder: Path) -> None:
    """Fine-tuning of a half-precision model writes float32."""
    change_weights(world_copy, halved)
    done = run(1, "run", world_copy.experiment, "--dry-run", *given_by(run_folder))
    assert done.returncode == 0, done.stderr


def test_what_needs_task_vectors(world: World, tmp_path: Path) -> None:
    refused(world, tmp_path / "run", "[similarity]", "standard or linear",
            arguments=("--set", 'finetune.regimes=["multitask"]'))


def test_truncated_weights(world_copy: World, tmp_path: Path) -> None:
    world_copy.weights.write_bytes(world_copy.weights.read_bytes()[:-1000])
    refused(world_copy, tmp_path / "run", world_copy.weights)


@pytest.mark.parametrize("length", [0, 5, 2**62, 2**64 - 1])
def test_a_lying_header_length(world_copy: World, tmp_path: Path, length: int) -> None:
    world_copy.weights.write_bytes(struct.pack("<Q", length) + world_copy.weights.read_bytes()[8:])
    refused(world_copy, tmp_path / "run", world_copy.weights, "header")


def test_lying_offsets(world_copy: World, tmp_path: Path) -> None:
    change_header(world_copy, lambda header: header[BIAS].update(data_offsets=[0, 2**60]))
    refused(world_copy, tmp_path / "run", world_copy.weights, BIAS)


def test_a_wrong_shape(world_copy: World, tmp_path: Path) -> None:
    change_weights(world_copy, lambda t: t.update({BIAS: t[BIAS][:-1]}))
    refused(world_copy, tmp_path / "run", world_copy.weights, BIAS, "[47]", "expected [48]", ranks=2)


def test_a_wrong_type(world_copy: World, tmp_path: Path) -> None:
    change_weights(world_copy, lambda t: t.update({BIAS: t[BIAS].astype(np.int32)}))
    refused(world_copy, tmp_path / "run", world_copy.weights, BIAS, "expected a floating type")


def test_a_missing_parameter(world_copy: World, tmp_path: Path) -> None:
    change_weights(world_copy, lambda t: t.__delitem__(BIAS))
    refused(world_copy, tmp_path / "run", world_copy.weights, BIAS, "missing")


def change_shape(world: World, **keys: object) -> None:
    file = world.model / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | keys))


def test_a_model_larger_than_its_file(world_copy: World, tmp_path: Path) -> None:
    """Shapes are compared before memory is taken for them: this one would take 64 TB."""
    change_shape(world_copy, hidden_size=1_000_000, num_attention_heads=1)
    refused(world_copy, tmp_path / "run", world_copy.weights, "class_embedding", "[24]", "expected [1000000]")


@pytest.mark.parametrize(("shape", "expected"), [
    ({"hidden_size": 1_000_000, "num_attention_heads": 1}, ["GiB; this host has"]),
    ({"image_size": 1_000_000}, ["GiB; this host has"]),
    ({"hidden_size": 10**6, "num_channels": 10**6, "image_size": 10**6, "patch_size": 10**6, "num_attention_heads": 1},
     ["patch_embedding.weight is too large"]),
])
def test_a_random_start_beyond_all_memory(world_copy: World, tmp_path: Path, shape: dict, expected: list[str]) -> None:
    change_shape(world_copy, **shape)
    refused(world_copy, tmp_path / "run", world_copy.model / "config.json", *expected,
            arguments=("--set", "model.init=random"))


@pytest.mark.parametrize(("key", "value", "expected"), [
    ("num_hidden_layers", 10**6, "an integer from 1 to 10000"),  # half a minute for their names alone
    ("hidden_act", 3, "expected text"),
    ("layer_norm_eps", 1e300, "a positive number of at most"),
    ("attention_dropout", 0.1, "expected 0: f(x; θ) is a pure function"),
    ("hidden_size", "24", "an integer from 1 to 1000000"),
    ("num_attention_heads", 5, "not a multiple"),
])
def test_a_wrong_key_of_the_model(world_copy: World, tmp_path: Path, key: str, value: object, expected: str) -> None:
    change_shape(world_copy, **{key: value})
    refused(world_copy, tmp_path / "run", world_copy.model / "config.json", key, expected)


def test_tensors_that_the_model_lacks(world_copy: World, tmp_path: Path) -> None:
    change_weights(world_copy, lambda t: t.update({"vision_model.embeddings.position_ids": np.arange(5)}))
    assert run(1, "run", world_copy.experiment, "--dry-run").returncode == 0  # a constant of Hugging Face's
    change_weights(world_copy, lambda t: t.update({f"{BIAS}.lora_{side}": np.ones(2, np.float32) for side in "AB"}))
    refused(world_copy, tmp_path / "run", world_copy.weights, f"{BIAS}.lora_A", "and 1 more",
            "CLIPVisionModelWithProjection")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers(world_copy: World, tmp_path: Path, value: float) -> None:
    change_weights(world_copy, lambda t: t[BIAS].__setitem__(3, value))
    refused(world_copy, tmp_path / "run", world_copy.weights, BIAS, "NaN or infinity")


def test_no_model(world_copy: World, tmp_path: Path) -> None:
    world_copy.weights.unlink()
    refused(world_copy, tmp_path / "run", world_copy.model,
            "has neither model.safetensors nor model.safetensors.index.json")


def test_a_missing_data_set(world_copy: World, tmp_path: Path) -> None:
    with h5py.File(world_copy.task("blobs"), "a") as file:
        del file["test/labels"]
    refused(world_copy, tmp_path / "run", world_copy.task("blobs"), "/test/labels", ranks=2)


@pytest.mark.parametrize("label", [-1, 4])
def test_a_label_out_of_range(world_copy: World, tmp_path: Path, label: int) -> None:
    with h5py.File(world_copy.task("blobs"), "a") as file:
        file["train/labels"][7] = label
    refused(world_copy, tmp_path / "run", world_copy.task("blobs"), "/train/labels", str(label), "7")


@pytest.mark.parametrize("scale", [0.0, np.nan, 1e30])
def test_a_scale_out_of_range(world_copy: World, tmp_path: Path, scale: float) -> None:
    with h5py.File(world_copy.task("blobs"), "a") as file:
        file["head/weight"].attrs["logit_scale"] = scale
    refused(world_copy, tmp_path / "run", world_copy.task("blobs"), "logit_scale", "above 0 and at most 1e6")


def test_a_model_that_gives_no_numbers(world_copy: World, tmp_path: Path) -> None:
    """Features of length 0 have no direction: no fault of the learning rate's."""
    change_weights(world_copy, lambda t: t.update({name: 0 * values for name, values in t.items()}))
    done = run(2, "run", world_copy.experiment, "--run-dir", tmp_path / "run")
    assert done.returncode == 1 and "not finite at step 0, before anything is learnt" in done.stderr, done.stderr


def test_no_data_file(world_copy: World, tmp_path: Path) -> None:
    world_copy.task("corners").unlink()
    refused(world_copy, tmp_path / "run", world_copy.task("corners"), ranks=2)


def test_a_file_that_is_no_hdf5(world_copy: World, tmp_path: Path) -> None:
    world_copy.task("corners").write_text("a picture of a corner")
    refused(world_copy, tmp_path / "run", world_copy.task("corners"))


@pytest.mark.parametrize(("setting", "expected"), CONFIGURATIONS)
def test_a_wrong_configuration(answers: dict[str, Future], setting: str, expected: list[str]) -> None:
    folder, said = answers[setting].result()
    complaint(said, *expected)
    assert not folder.exists()


def test_an_unknown_section(world_copy: World, tmp_path: Path) -> None:
    world_copy.experiment.write_text(world_copy.experiment.read_text() + "\n[smothness]\npoints = 4\n")
    refused(world_copy, tmp_path / "run", "[smothness]", "did you mean [smoothness]?", "There are [addition], ",
            "[finetune]", "[run]", "[similarity]")


def test_an_experiment_that_is_no_toml(world_copy: World, tmp_path: Path) -> None:
    world_copy.experiment.write_text("[run\nname = 1\n")
    refused(world_copy, tmp_path / "run", f"{world_copy.experiment}:1: not TOML", ranks=2)
    refused(World(tmp_path / "nowhere"), tmp_path / "run", tmp_path / "nowhere" / "tiny.toml")


def test_an_unknown_option(world: World) -> None:
    complaint(run(2, "run", world.experiment, "--run-folder", "x"), "--run-folder", "--help")


def test_another_configuration_in_the_same_folder(world: World, run_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    results = folder / "results.h5"
    before = results.read_bytes(), (folder / "config.toml").read_text()
    done = run(2, "run", world.experiment, "--run-dir", folder, "--set", "finetune.steps=26")
    complaint(done, folder, "finetune.steps", "25", "26", "--run-dir")
    assert (results.read_bytes(), (folder / "config.toml").read_text()) == before


@pytest.mark.parametrize("contents", ["another run's", "no results"])
def test_results_that_are_not_this_runs(world: World, run_folder: Path, tmp_path: Path, contents: str) -> None:
    results = tmp_path / "run" / "results.h5"
    results.parent.mkdir()
    results.write_bytes((run_folder / "results.h5").read_bytes() if contents == "another run's" else b"my notes")
    before = results.read_bytes()
    done = run(2, "run", world.experiment, "--run-dir", results.parent)
    complaint(done, results, "not of this run", "begun at" if contents == "another run's" else contents, "--run-dir")
    assert results.read_bytes() == before
    assert list(results.parent.iterdir()) == [results]  # nothing is begun


def test_another_runs_results_in_a_finished_folder(world: World, run_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    again = run(2, "run", world.experiment, "--run-dir", folder)
    assert again.returncode == 0, again.stderr
    with h5py.File(folder / "results.h5", "a") as file:
        file.attrs["started_utc"] = "2001-01-01T00:00:00Z"
    complaint(run(2, "run", world.experiment, "--run-dir", folder), folder / "results.h5", "2001-01-01T00:00:00Z")


def test_a_folder_that_cannot_be_written(world: World, tmp_path: Path) -> None:
    folder = Path("/proc/taugrid-run")  # closed to root as well
    if os.geteuid() != 0:
        folder = tmp_path / "closed" / "run"
        folder.parent.mkdir(mode=0o555)
    refused(world, folder, folder, ranks=2)


@pytest.mark.parametrize("option", ["--time-limit", "--stop-within", "--collective-limit"])
@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1", "soon"])
def test_seconds_are_finite_and_above_zero(world: World, tmp_path: Path, option: str, value: str) -> None:
    complaint(run(1, "run", world.experiment, "--run-dir", tmp_path / "run", option, value), option)
    assert not (tmp_path / "run").exists()
