# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A text encoder with a vocabulary used twice, a residual network with batch norm, and a Vision Transformer whose
classifiers the run trains: all that holds for CLIP."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import analysis_command
import h5py
import net_worlds
import numpy as np
import pytest
import rehearsal
import torch
from compare import close_to_rounding, differing, numbers
from launch import complaint, kill_all, leftovers, measure, run, start, units, wait_until
from net_worlds import NetWorld
from safetensors.torch import load_file, save_file

KINDS = ("resnet", "closed", "text")
MEASURED = ("linearity", "averages", "layer_averages", "stitching", "barrier", "smoothness", "ntk", "pair_addition",
            "negation", "cost")


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def finished(kind: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[NetWorld, Path]:
    return net_worlds.finished(tmp_path_factory.getbasetemp(), kind)


@pytest.fixture(scope="session")
def net(finished: tuple[NetWorld, Path]) -> NetWorld:
    return finished[0]


@pytest.fixture(scope="session")
def done(finished: tuple[NetWorld, Path]) -> Path:
    """A finished run on 2 ranks."""
    return finished[1]


def same(a: Path, b: Path) -> None:
    assert differing(numbers(a / "results.h5"), numbers(b / "results.h5")) == []


@pytest.mark.parametrize("regime", ["standard", "linear", "tau_jp"])
def test_training_helps(done: Path, regime: str) -> None:
    with h5py.File(done / "results.h5") as file:
        loss = file[f"training/{regime}/loss"][()]
        left = loss[:, -5:].mean(1) / loss[:, :5].mean(1)
        assert (left < 1).all() and left.mean() < 0.8
        after, before = (file[f"single_task/{name}/loss"][()] for name in (regime, "pretrained"))
        assert after.mean() < before.mean()  # of few test points: not each task's must fall


def test_numbers_do_not_depend_on_the_number_of_ranks(kind: str, net: NetWorld, done: Path, tmp_path: Path) -> None:
    """Nor do they depend on what stands behind the texts."""
    other = net_worlds.text_world(tmp_path / "padded", pad=7, width=23) if kind == "text" else net
    measure(other.experiment, tmp_path / "run", ranks=1 if kind == "resnet" else 4)
    same(done, tmp_path / "run")


@pytest.mark.parametrize("kind", KINDS[1:], indirect=True)
def test_two_ranks_a_unit_agree_to_rounding(kind: str, net: NetWorld, done: Path, tmp_path: Path) -> None:
    """Batch norm's numbers on a device are tested below."""
    theirs = numbers(measure(net.experiment, tmp_path / "run", "--set", "run.ranks_per_unit=2"))
    close_to_rounding(numbers(done / "results.h5"), theirs)


@pytest.mark.parametrize("name", ["resnet", "text"])
def test_a_rank_without_a_share_of_the_batch(name: str, tmp_path: Path) -> None:
    net = net_worlds.WORLDS[name](tmp_path / "world")
    few = [
        word
        for setting in ("finetune.batch=1", "finetune.penalty_batch=1", "finetune.steps=4")
        for word in ("--set", setting)
    ]
    training = net_worlds.without(net, (*MEASURED, "similarity", "disentanglement", "addition"))
    ours = numbers(measure(training, tmp_path / "one", *few))
    theirs = numbers(measure(training, tmp_path / "two", *few, "--set", "run.ranks_per_unit=2"))
    for regime in ("standard", "linear", "tau_jp"):
        np.testing.assert_allclose(ours[f"training/{regime}/loss"], theirs[f"training/{regime}/loss"], rtol=1e-3)


def test_the_device_gives_the_hosts_numbers(kind: str, net: NetWorld, done: Path, tmp_path: Path) -> None:
    """Batch norm's statistics are those of the whole batch, on whichever rank of a group its samples lie."""
    ranks = 2 if kind == "resnet" else 1
    groups = ("--set", f"run.ranks_per_unit={ranks}")
    results = rehearsal.run(net.experiment, tmp_path / "device", *groups, ranks=ranks)
    close_to_rounding(numbers(done / "results.h5"), numbers(results))


# With statistics, with trained classifiers; in the order of KINDS, so that pytest makes each reference once.
@pytest.mark.parametrize("kind", KINDS[:2], indirect=True)
def test_killed_twice_and_finished(kind: str, net: NetWorld, done: Path, tmp_path: Path) -> None:
    folder, chance = tmp_path / "run", random.Random(kind)
    often = ("--set", "finetune.checkpoint_seconds=0.01")  # which does not change a number

    def states() -> int:
        return len(list(folder.glob("scratch/finetune__*/state.safetensors")))

    for moment in (lambda: states() > 0, lambda: units(folder) > 30):
        job = start(2, "run", net.experiment, "--run-dir", folder, *often)
        if wait_until(moment, job):
            time.sleep(chance.uniform(0, 0.05))
        kill_all(job)
    measure(net.experiment, folder, *often)
    same(done, folder)
    assert leftovers(folder) == []


def test_plan_knows_the_units(net: NetWorld, done: Path) -> None:
    planned = run(1, "plan", net.experiment, "--ranks", "1,2", "--profile", done / "results.h5")
    assert planned.returncode == 0, planned.stderr
    assert f"{units(done)} units" in planned.stdout


def test_checkpoints_are_whole_models(net: NetWorld, done: Path) -> None:
    """They have the same tensors, batch norm's statistics among them, as the model that they began from."""
    before = load_file(net.weights)
    after = load_file(done / "checkpoints" / "standard" / net.tasks[0] / "model.safetensors")
    used = {name for name in before if not name.endswith("num_batches_tracked")}
    assert after.keys() == used and all(after[name].shape == before[name].shape for name in used)
    statistics = [name for name in used if "running" in name]
    assert bool(statistics) == (net.make is net_worlds.ResNet)
    assert all((after[name] != before[name]).any() for name in statistics)
    linear = load_file(done / "checkpoints" / "linear" / net.tasks[0] / "model.safetensors")
    assert all((linear[name] == before[name]).all() for name in statistics)  # the tangent is of the stored ones


@pytest.mark.parametrize("name", ["resnet", "closed"])
def test_stages_that_are_frozen_run_once(name: str, tmp_path: Path) -> None:
    """Their outputs are kept; without memory for them, they are computed again, and give the same. Kernels and
    curvature are those of the parameters behind them."""
    net, frozen = net_worlds.WORLDS[name](tmp_path / "world"), ("--set", "finetune.first_stage=2")
    some = net_worlds.without(net, ("averages", "stitching", "pair_addition", "negation", "cost"))
    kept = measure(some, tmp_path / "kept", *frozen)
    again = measure(some, tmp_path / "again", *frozen, "--set", "run.memory=1e-6")
    assert differing(numbers(kept), numbers(again)) == []
    before = load_file(net.weights)
    after = load_file(tmp_path / "kept" / "checkpoints" / "standard" / net.tasks[1] / "model.safetensors")
    changed = {name for name in after if after[name].is_floating_point() and (after[name] != before[name]).any()}
    trained = ("layer2", "fc", "vit.encoder.layer.1", "vit.layernorm")
    assert changed == {name for name in after if name.startswith(trained)}
    derivatives = ("--only", "ntk", "--only", "smoothness")
    check = analysis_command.called("recompute", tmp_path / "kept", "--points", "6", *derivatives)
    assert check.returncode == 0, check.stdout + check.stderr
    with h5py.File(kept) as file:
        assert [file[group].attrs["first_stage"] for group in ("ntk/pretrained", "smoothness/standard")] == [2, 2]


def test_frozen_norms_keep_their_statistics_whatever_is_trained_on(tmp_path: Path) -> None:
    """Crops are other pictures in each step, which frozen stages see too; they learn nothing of them. A model that was
    given and has other statistics there is refused: what they make is taken as the start's."""
    net = net_worlds.WORLDS["resnet"](tmp_path / "world")
    training = net_worlds.without(net, (*MEASURED, "similarity", "disentanglement", "addition"))
    frozen = ("--set", "finetune.first_stage=2", "--set", 'finetune.regimes=["standard"]')
    measure(training, tmp_path / "run", *frozen, "--set", "finetune.random_crop=0.5")
    before = load_file(net.weights)
    tuned = tmp_path / "run" / "checkpoints" / "standard" / net.tasks[0] / "model.safetensors"
    after = load_file(tuned)
    changed = {name for name in after if "running" in name and (after[name] != before[name]).any()}
    assert changed == {name for name in after if "running" in name and name.startswith("layer2")} != set()

    given = Path(shutil.copytree(tmp_path / "run" / "checkpoints", tmp_path / "given"))
    path = given / tuned.relative_to(tmp_path / "run" / "checkpoints")
    after["layer1.0.bn1.running_mean"] += 0.1
    save_file(after, path)
    settings = (*frozen, "--set", f"finetune.checkpoints={given}", "--set", 'finetune.given=["standard"]')
    complaint(run(1, "run", training, "--run-dir", tmp_path / "again", *settings), path.parent,
              "was trained in stage 1 (the statistics of its norms", "finetune.first_stage = 2")


def test_heads_are_trained_once_and_kept(tmp_path: Path) -> None:
    """They are files of the run; one that is gone, cut short or another is trained again, before what needs it."""
    world = net_worlds.closed_vocabulary_world(tmp_path / "world")
    training = net_worlds.without(world, (*MEASURED, "similarity", "disentanglement", "addition"))
    measure(training, tmp_path / "run")
    before = numbers(tmp_path / "run" / "results.h5")
    heads = sorted((tmp_path / "run" / "checkpoints" / "heads").iterdir())
    assert [path.stem for path in heads] == sorted([*world.tasks, "plaids"])
    weights = load_file(heads[0])
    assert set(weights) == {"weight", "bias"} and weights["weight"].shape[1] == 8
    loss = before["heads/pretrained/loss"]
    assert loss[:, 0] == pytest.approx(np.log([3, 4, 5]), rel=1e-6) and (loss[:, -1] < 0.95 * loss[:, 0]).all()
    content = heads[0].read_bytes()
    for damage in ("gone", "cut", "other"):
        heads[0].unlink()
        if damage == "cut":
            heads[0].write_bytes(content[:-8])
        elif damage == "other":
            save_file({"weight": weights["weight"]}, heads[0])
        unit = next((tmp_path / "run" / "units").glob("single_task__pretrained__stripes*"))
        unit.unlink()
        (tmp_path / "run" / "results.h5").unlink()
        measure(training, tmp_path / "run")
        assert heads[0].read_bytes() == content
        assert differing(before, numbers(tmp_path / "run" / "results.h5")) == []


def _as_text(world: NetWorld) -> None:
    net_worlds.write_text_task(world.task(world.tasks[0]), "moods", np.random.default_rng(0))


def _as_pictures(world: NetWorld) -> None:
    net_worlds.write_task(world.task(world.tasks[0]), "stripes", np.random.default_rng(0), features=16)


def _edit_task(edit: Callable[[h5py.File], None], task: int = -1) -> Callable[[NetWorld], None]:
    def change(world: NetWorld) -> None:
        with h5py.File(world.task(world.tasks[task]), "r+") as file:
            edit(file)

    return change


def _weights_without(part: str) -> Callable[[NetWorld], None]:
    def change(world: NetWorld) -> None:
        tensors = load_file(world.weights)
        save_file({name: t for name, t in tensors.items() if part not in name}, world.weights)

    return change


def _weights_with(name: str) -> Callable[[NetWorld], None]:
    def change(world: NetWorld) -> None:
        tensors = load_file(world.weights)
        save_file(tensors | {name: torch.zeros(3)}, world.weights)

    return change


def _set(path: str, value: object) -> Callable[[h5py.File], None]:
    def edit(file: h5py.File) -> None:
        file[path][...] = value

    return edit


def _narrow_head(file: h5py.File) -> None:
    weight, scale = file["head/weight"][:, :-1], file["head/weight"].attrs["logit_scale"]
    del file["head/weight"]
    file["head/weight"] = weight / np.linalg.norm(weight, axis=1, keepdims=True)
    file["head/weight"].attrs["logit_scale"] = scale


NOTHING = {"change": lambda world: None, "arguments": ()}
REFUSED = {
    "pictures for a text model": ("text", {"change": _as_pictures}, "holds images; the model"),
    "texts for an image model": ("resnet", {"change": _as_text}, "holds text; the model"),
    "a head of another width": (
        "resnet",
        {"change": _edit_task(_narrow_head, 0)},
        "rows of 7 numbers; the model's output has 8",
    ),
    "a word beyond the vocabulary": ("text", {"change": _edit_task(_set("test/inputs", 40))}, "token 40; the model"),
    "a label word beyond it": (
        "text",
        {"change": _edit_task(_set("head/tokens", [1, 2, 3, 4, 40]))},
        "/head/tokens holds 40",
    ),
    "one label word for two classes": (
        "text",
        {"change": _edit_task(_set("head/tokens", [1, 2, 3, 3, 4]))},
        "two classes share a word",
    ),
    "a text longer than its row": ("text", {"change": _edit_task(_set("test/lengths", 13))}, "row 0 holds 13"),
    "an empty text": ("text", {"change": _edit_task(_set("test/lengths", 0))}, "row 0 holds 0"),
    "a class beyond the classifier": (
        "resnet",
        {"change": _edit_task(_set("head/tokens", [0, 1, 2, 3, 6]))},
        "/head/tokens holds 6; the model",
    ),
    "a missing statistic": (
        "resnet",
        {"change": _weights_without("layer1.0.bn2.running_var")},
        "layer1.0.bn2.running_var",
    ),
    "a layer too many": ("text", {"change": _weights_with("layer.3.norm1.weight")}, "layer.3.norm1.weight"),
    "a stage that is not there": (
        "text",
        {"arguments": ("--set", "finetune.first_stage=5")},
        "finetune.first_stage is 5",
    ),
    "attention where there is none": (
        "resnet",
        {"arguments": ("--set", 'finetune.regimes=["attention"]')},
        "finetune.regimes: attention trains nothing of the model",
    ),
    "a start that open_clip has not": (
        "resnet",
        {"arguments": ("--set", "model.init=random", "--set", "model.drawn_as=open_clip")},
        'model.drawn_as is "open_clip", and the model',
    ),
    "nothing left to train": (
        "text",
        {"arguments": ("--set", "finetune.first_stage=4")},
        "standard trains nothing of the model",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    kind, wrong, expected = REFUSED[case]
    world = net_worlds.WORLDS[kind](tmp_path / "world")
    (NOTHING | wrong)["change"](world)
    refused = run(1, "run", world.experiment, "--run-dir", tmp_path / "run", *(NOTHING | wrong)["arguments"])
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.count("\n") == 1 and expected in refused.stderr, refused.stderr
    assert not (tmp_path / "run").exists()


def test_a_vector_of_another_start_is_refused(net: NetWorld, done: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(net.folder, other)
    weights = other / "model" / "model.safetensors"
    save_file({name: t * 1.01 if t.is_floating_point() else t for name, t in load_file(weights).items()}, weights)
    refused = run(
        2,
        "run",
        other / "tiny.toml",
        "--run-dir",
        tmp_path / "run",
        "--set",
        'finetune.given=["linear"]',
        "--set",
        f"finetune.checkpoints={done / 'checkpoints'}",
    )
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1, refused.stderr
    assert "is not the model" in refused.stderr and "make no task vectors of it" in refused.stderr


def test_text_has_no_crops(tmp_path: Path) -> None:
    crops = ("--set", "finetune.random_crop=0.6")
    world = net_worlds.text_world(tmp_path / "world")
    done = run(1, "run", world.experiment, "--run-dir", tmp_path / "run", *crops)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    for word in (crops[1], "takes text", str(world.weights.parent)):
        assert word in done.stderr
    assert not (tmp_path / "run").exists()
