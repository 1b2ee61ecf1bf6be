# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[merging] methods joint and tangent: one model trained on all tasks, beside the merges, trained once a run."""

from pathlib import Path

import analysis_command
import h5py
import launch
import numpy as np
import pytest
from compare import differing, numbers
from safetensors.numpy import load_file
from world import EXPERIMENT, TASKS, World

STEPS, BATCH = 5, 16
TOGETHER = len(TASKS) * STEPS
METHODS = {"joint": "standard", "tangent": "linear"}
TEXT = EXPERIMENT.split("[similarity]")[0].replace("steps = 25", f"steps = {STEPS}")
# multitask is trained for as many steps as joint is, multitask_linear is none of the run's regimes.
BOTH = TEXT.replace('"linear"]', '"linear", "multitask"]').replace("[data]\n", '[data]\ncontrol = "plaids"\n') + f"""
[finetune.multitask]
steps = {TOGETHER}
[merging]
methods = ["linear", "tangent", "joint", "task_arithmetic"]
alpha = [1.0]
save = true
[bases]
clusters = [1, 3]
random = 0
alpha = [1.0]
[bases.merge_in]
method = "joint"
[bases.negation]
clusters = 1
alpha = [0.0, 1.0]
[bases.partitions]
tasks = ["corners", "stripes", "blobs"] # in another order
methods = ["joint"]
alpha = [1.0]
"""


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.elsewhere(tmp_path_factory.mktemp("experiment") / "joint.toml", BOTH)


@pytest.fixture(scope="module")
def run(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joint") / "run"
    launch.measure(experiment, folder)
    return folder


@pytest.fixture(scope="module")
def file(run: Path) -> h5py.File:
    return h5py.File(run / "results.h5")


def fields(group: h5py.Group) -> set[str]:
    return {name for name, node in group.items() if isinstance(node, h5py.Dataset)}


@pytest.mark.parametrize(("method", "regime"), METHODS.items())
def test_it_has_what_other_methods_have(file: h5py.File, method: str, regime: str) -> None:
    assert sorted(file[f"merging/{method}"]) == [regime]
    group, other = file[f"merging/{method}/{regime}"], file[f"merging/linear/{regime}"]
    assert fields(group) == fields(other) | {"loss"}
    assert set(file[f"correct{group.name}"]) == set(file[f"correct{other.name}"])
    assert group["alpha"][()].tolist() == [1.0] and group["coefficient"][()] == 1
    assert group["passes"][()] == group["bytes"][()] == 0  # of vectors none
    inputs = TOGETHER * (BATCH // len(TASKS)) * len(TASKS)
    assert group["forward_passes"][()] == group["backward_passes"][()] == inputs
    assert group["loss"].shape == (TOGETHER,) and group["seconds"][()] > 0 and group["density"][()] > 0.5
    single_accuracy = file[f"single_task/{regime}/accuracy"][()]
    np.testing.assert_allclose(group["normalized"][()], np.mean(group["accuracy"][()] / single_accuracy))
    bits = np.unpackbits(file[f"correct{group.name}/test_accuracy"][()], axis=-1).sum(-1)
    np.testing.assert_allclose(bits / 24, group["test_accuracy"][()])


def test_the_regime_and_every_method_have_one_model(run: Path, file: h5py.File) -> None:
    """Trained once, in the order of data.tasks, and measured alike by all."""
    file_names = sorted(path.name for path in (run / "units").glob("finetune*multitask*"))
    assert file_names == ["finetune__multitask__joint.safetensors", "finetune__multitask_linear__joint.safetensors"]
    assert sorted(path.name for path in (run / "checkpoints/multitask").iterdir() if "+" not in path.name) == ["joint"]
    group = file["merging/joint/standard"]
    assert group.attrs["checkpoint"] == "multitask/joint"
    assert file["merging/tangent/linear"].attrs["checkpoint"] == "multitask_linear/joint"
    np.testing.assert_array_equal(group["loss"][()], file["training/multitask/loss"][()])
    np.testing.assert_array_equal(group["accuracy"][()], file["multitask/multitask/accuracy"][()])
    np.testing.assert_array_equal(file["correct/merging/joint/standard/test_accuracy"][0],
                                  file["correct/multitask/multitask/accuracy"][()])
    for method, regime in METHODS.items():
        partitions = file[f"every_partition/joint/{regime}"]
        together = partitions["labels"][()].tolist().index([0, 0, 0])
        of = partitions["member"][()]
        for what, alpha in (("accuracy", ()), ("validation_accuracy", (0,))):
            np.testing.assert_array_equal(partitions[what][together][*alpha],
                                          file[f"merging/{method}/{regime}/{what}"][*alpha][of])


@pytest.mark.parametrize(("method", "regime"), METHODS.items())
def test_a_basis_of_all_tasks_is_that_model(run: Path, file: h5py.File, method: str, regime: str) -> None:
    """And of each task alone, its vector."""
    tau, basis = (load_file(run / f"units/{unit}.safetensors")[tensor] for unit, tensor in
                  ((f"merging__{method}__{regime}", "tau"), (f"basis_vectors__{regime}", "basis_0")))
    np.testing.assert_array_equal(basis, tau)
    bases = file[f"bases/{regime}"]
    assert bases.attrs["merge_in"] == "joint"
    for row, other in enumerate((method, "task_arithmetic")):
        for what, alpha in (("accuracy", ()), ("validation_accuracy", (0,))):
            np.testing.assert_array_equal(bases[what][row, 0][*alpha], file[f"merging/{other}/{regime}/{what}"][*alpha])


@pytest.mark.parametrize(("method", "regime"), METHODS.items())
def test_the_vector_is_the_model_less_its_start(run: Path, file: h5py.File, method: str, regime: str) -> None:
    tau = load_file(run / "units" / f"merging__{method}__{regime}.safetensors")["tau"]
    folder = run / "checkpoints"
    tuned = load_file(folder / file[f"merging/{method}/{regime}"].attrs["checkpoint"] / "model.safetensors")
    start = load_file(folder / "pretrained/model.safetensors")
    changes = np.sort(np.concatenate([(tuned[name] - start[name]).ravel() for name in tuned]))
    np.testing.assert_array_equal(np.sort(tau), changes)


def test_steps_of_its_own_make_another_model(world: World, tmp_path: Path) -> None:
    """The regime's steps are what [finetune] says, joint's are the tasks' together; plan knows it."""
    text = TEXT.replace('["standard", "linear"]', '["standard", "multitask"]').replace("[finetune.linear]", "")
    text = text.replace("learning_rate = 2e-3\n", "") + '[merging]\nmethods = ["joint"]\n'
    experiment = world.elsewhere(tmp_path / "other.toml", text)
    results = launch.measure(experiment, tmp_path / "run")
    with h5py.File(results) as file:
        assert file["training/multitask/loss"].shape == (STEPS,)
        group = file["merging/joint/standard"]
        assert group["loss"].shape == (TOGETHER,) and group.attrs["checkpoint"] == "multitask/all"
        assert group["accuracy"].shape == file["multitask/multitask/accuracy"].shape
    costs = launch.planned_costs(experiment, results, tmp_path / "plan.json")
    ratio = costs["finetune_cluster/standard/all"] / costs["finetune/multitask/joint"]
    assert ratio == pytest.approx(TOGETHER / STEPS, rel=0.05)
    done = analysis_command.called("recompute", tmp_path / "run", "--points", "60", "--only", "merging")
    assert done.returncode == 0, done.stdout + done.stderr


def test_numbers_do_not_depend_on_the_ranks(experiment: Path, run: Path, tmp_path: Path) -> None:
    again = launch.measure(experiment, tmp_path / "run", ranks=1)
    assert differing(numbers(run / "results.h5"), numbers(again)) == []


def test_recompute_takes_them_again(run: Path) -> None:
    done = analysis_command.called("recompute", run, "--points", "60", "--only", "merging", "--only", "every_partition")
    assert done.returncode == 0, done.stdout + done.stderr
    for what in ("merging/joint: test_accuracy", "merging/tangent: validation_accuracy",
                 "every_partition/joint: accuracy"):
        assert f"\n{what} " in done.stdout


def test_the_table_has_one_line_of_the_model(run: Path, tmp_path: Path) -> None:
    done = analysis_command.called("tables", run, "--only", "merging")
    assert done.returncode == 0, done.stderr
    lines = [line.split()[:2] for line in done.stdout.splitlines()]
    assert lines.count(["standard", "joint"]) == 1 and lines.count(["linear", "tangent"]) == 1
    assert ["standard", "multitask"] not in lines


def test_a_saved_model_is_no_recipe(run: Path) -> None:
    recipe = run / "merged/joint/standard/merge.toml"
    done = launch.run(1, "merge", recipe)
    assert done.returncode == 2 and '"joint", which needs data' in done.stderr, done.stderr
    saved, trained = (load_file(folder / "model.safetensors")
                      for folder in (recipe.parent, run / "checkpoints/multitask/joint"))
    for name, value in trained.items():
        np.testing.assert_allclose(saved[name], value, atol=1e-6)


@pytest.mark.parametrize(("settings", "expected"), [
    (['finetune.regimes=["standard"]'], ["merging.methods", "tangent", "linear", "finetune.regimes"]),
    (["finetune.batch=2"], ["batch", "3 tasks"]),
    (['merging.methods=["tangent"]', 'merging.regimes=["standard"]'], ["merging.methods", "tangent", "are standard"]),
    (['merging.methods=["tangent"]', "finetune.multitask_linear.batch=2"], ["merging.methods", "tangent", "3 tasks"]),
    (['finetune.regimes=["standard", "linear", "posthoc"]'], ["bases.merge_in.method", "joint", "posthoc"]),
])
def test_wrong_settings(experiment: Path, tmp_path: Path, settings: list[str], expected: list[str]) -> None:
    arguments = [word for setting in settings for word in ("--set", setting)]
    launch.complaint(launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", *arguments), *expected)
