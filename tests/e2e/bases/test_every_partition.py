# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[bases.partitions]: every partition of a few tasks, by methods with data and without, and by training together."""

from pathlib import Path

import analysis_command
import h5py
import launch
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from taugrid_analysis.quantities.bases import figures as bases_figures
from taugrid_analysis.quantities.bases import partitions
from taugrid_analysis.run.opened import Run
from world import EXPERIMENT, REGIMES, World, write_task

SOME = ["corners", "stripes", "blobs"]
PAIRS = ["linear+linear", "fisher+ties", "joint+task_arithmetic"]
HELD = [0.0, 0.5, 1.0]
BASIS = f"""
[merging]
methods = ["fisher"]
[merging.fisher]
points = 8
alpha = {HELD[1:]}
[bases]
clusters = [1]
alpha = {HELD[1:]}
[bases.merge_in]
method = "fisher"
points = 8
[bases.partitions]
tasks = {SOME}
methods = ["linear", "fisher", "joint"]
pairs = {PAIRS}
alpha = [0.5, 1.0, 2.0]
held_alpha = {HELD}
threshold = 0.02
[bases.partitions.fisher]
points = 8
[bases.partitions.negation]
task = "stripes"
alpha = [0.0, 0.5, 1.0, 2.0]
control_threshold = 0.8
"""
TEXT = EXPERIMENT.split("[similarity]")[0].replace("steps = 25", "steps = 6")
TEXT = TEXT.replace('"corners"]', '"corners", "plaids"]')
TEXT = TEXT.replace("[data]\n", '[data]\ncontrol = "spots"\ncontrol_points = 28\n')


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The world's experiment has a fifth data set for the control."""
    folder = tmp_path_factory.mktemp("experiment")
    data = folder / "data"
    data.mkdir()
    for path in world.task("plaids").parent.iterdir():
        (data / path.name).symlink_to(path)
    write_task(data / "spots.h5", "plaids", np.random.default_rng(4))
    with h5py.File(data / "spots.h5", "r+") as file:
        file.attrs["task"] = "spots"
    text = (TEXT + BASIS).replace('"data"', f'"{data}"')
    return world.elsewhere(folder / "partitions.toml", text)


@pytest.fixture(scope="module")
def run(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("partitions") / "run"
    launch.measure(experiment, folder)
    return folder


def test_all_partitions_and_all_clusters(run: Path) -> None:
    with h5py.File(run / "results.h5") as file:
        assert sorted(file["every_partition"]) == sorted(["fisher", "joint", "linear", *PAIRS])
        for method in file["every_partition"]:
            assert sorted(file[f"every_partition/{method}"]) == sorted(REGIMES)
            group = file[f"every_partition/{method}/standard"]
            names = [name.decode() for name in file["tasks/name"][()]]
            assert [names[t] for t in group["member"]] == SOME
            assert ("+" in method) != ("other" in group and [names[t] for t in group["other"]] == ["plaids"])
            stored_partitions = [partitions.of_labels(row, SOME) for row in group["labels"][()]]
            assert set(stored_partitions) == set(partitions.every(SOME)) and len(stored_partitions) == 5
            assert sorted(map(tuple, group["cluster"][()].tolist())) == sorted(
                (a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1) if a or b or c
            )


@pytest.mark.parametrize("regime", REGIMES)
def test_a_basis_by_fisher_is_the_merge_by_fisher(run: Path, regime: str) -> None:
    """All tasks in one cluster are what [merging] makes of them."""
    with h5py.File(run / "results.h5") as file:
        bases, merged = file[f"bases/{regime}"], file[f"merging/fisher/{regime}"]
        assert bases.attrs["merge_in"] == "fisher"
        np.testing.assert_array_equal(bases["validation_accuracy"][0, 0], merged["validation_accuracy"])
        np.testing.assert_array_equal(bases["accuracy"][0, 0], merged["accuracy"])


@pytest.mark.parametrize("regime", REGIMES)
def test_each_alone_is_the_sum_whatever_makes_a_basis(run: Path, regime: str) -> None:
    with h5py.File(run / "results.h5") as file:
        groups = [file[f"every_partition/{method}/{regime}"] for method in ("linear", "fisher", "joint")]
        place = groups[0]["labels"][()].tolist().index([0, 1, 2])
        for what in ("accuracy", "validation_accuracy", "coefficient"):
            assert all(np.array_equal(groups[0][what][place], group[what][place]) for group in groups)
        assert any(
            not np.array_equal(groups[0][what], group[what]) for group in groups[1:] for what in ("cosine", "accuracy")
        )
        # The nearest of the three vectors is that of the largest cosine; found where it reaches the threshold.
        singles = [int(np.flatnonzero((groups[0]["cluster"][()] == row).all(1))[0]) for row in np.eye(3, dtype=int)]
        for group in groups:
            cosine = group["cosine"][0][singles]
            assert group["nearest"][0, place] == singles[int(np.argmax(cosine))]
            assert group["found"][0, place] == (cosine.max() >= 0.02)
        start = file["single_task/pretrained/accuracy"][3]
        assert (groups[0]["held_test"][0, :, 0] == start).all()  # α = 0


@pytest.mark.parametrize("regime", REGIMES)
def test_all_bases_at_once_for_a_task_outside(run: Path, regime: str) -> None:
    """One cluster has its own basis; α = 0 has θ0. α is the best by validation, the first of equals."""
    with h5py.File(run / "results.h5") as file:
        groups = {method: file[f"every_partition/{method}/{regime}"] for method in ("linear", "fisher", "joint")}
        start = file["single_task/pretrained/accuracy"][3]
        alone = groups["linear"]["labels"][()].tolist().index([0, 1, 2])
        whole = groups["linear"]["labels"][()].tolist().index([0, 0, 0])
        for group in groups.values():
            test, validation = group["together_test"][()], group["together_validation"][()]
            (cluster,) = np.flatnonzero(group["cluster"][()].all(axis=1))
            np.testing.assert_array_equal(test[whole], group["held_test"][:, cluster])
            np.testing.assert_array_equal(validation[whole], group["held_validation"][:, cluster])
            assert (test[..., 0] == start).all()
            alpha, best = group["held_alpha"][()], validation.argmax(axis=-1)
            np.testing.assert_array_equal(group["together_alpha"][()], alpha[best])
            np.testing.assert_array_equal(
                group["together_tuned"][()], np.take_along_axis(test, best[..., None], -1)[..., 0]
            )
            np.testing.assert_array_equal(group["together_one_shot"][()], test[..., alpha.tolist().index(1.0)])
            np.testing.assert_array_equal(test[alone], groups["linear"]["together_test"][alone])
        assert not all(np.array_equal(groups["linear"]["together_test"], group["together_test"])
                       for group in groups.values())
        assert all("together_test" not in file[f"every_partition/{pair}/{regime}"] for pair in PAIRS)


def test_pairs_of_methods(run: Path) -> None:
    """What a pair merges bases by is that method's merge, with its own α."""
    with h5py.File(run / "results.h5") as file:
        groups = file["every_partition"]
        for name, outside in zip(PAIRS, ("linear", "ties", "task_arithmetic"), strict=True):
            assert all(groups[f"{name}/{regime}"].attrs["merge_out"] == outside for regime in REGIMES)
        for regime in REGIMES:
            # The mean of means is the sum of means divided by the clusters: α of that sum at 1/k times the α.
            mean, summed = groups[f"linear+linear/{regime}"], groups[f"linear/{regime}"]
            assert mean["alpha"][()].tolist() == [1.0]
            for p, labels in enumerate(mean["labels"][()]):
                if labels.max() == 1:
                    half = summed["validation_accuracy"][p, summed["alpha"][()].tolist().index(0.5)]
                    np.testing.assert_array_equal(mean["validation_accuracy"][p, 0], half)
            again, joint = groups[f"joint+task_arithmetic/{regime}"], groups[f"joint/{regime}"]
            for what in ("accuracy", "validation_accuracy", "coefficient"):
                np.testing.assert_array_equal(again[what], joint[what])
            assert not np.array_equal(
                groups[f"fisher+ties/{regime}/validation_accuracy"], groups[f"fisher/{regime}/validation_accuracy"]
            )


def test_what_is_the_same_is_measured_once(run: Path) -> None:
    """Each task alone is one sum whatever makes a basis, and one basis of a held-out task."""
    names = [path.stem.split("__") for path in (run / "units").iterdir()]
    for regime in REGIMES:
        merges = [name[1] for name in names if name[0] == "partition_merge" and name[2] == regime]
        assert len(merges) == 6 * 4 + 4 and sum(name.startswith("alone") for name in merges) == 4, sorted(merges)
        outside = sorted(name[1] for name in names if name[0] == "partition_transfer" and name[2] == regime)
        assert outside == ["alone", "fisher", "joint", "linear"]


def test_regimes_of_all_methods(experiment: Path, tmp_path: Path) -> None:
    """Others have joint alone, and no method's bases beside it."""
    done = launch.run(1, "run", experiment, "--dry-run", "--set", 'bases.partitions.regimes=["standard"]')
    assert done.returncode == 0, done.stderr
    kinds = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines() if "partition_" in line[:30]}
    assert kinds["partition_merge/fisher"] == 4 and kinds["partition_merge/joint"] == 2 * 4
    assert kinds["partition_negation/linear"] == 3 and kinds["partition_negation/joint"] == 2 * 3
    assert kinds["partition_transfer/alone"] == 2


def test_figure_10_of_every_method(run: Path) -> None:
    with Run(run) as opened, h5py.File(run / "results.h5") as file:
        by_method = partitions.nearest_by_method(opened, "standard")
        assert set(by_method) == {"Mean", "Fisher", "MTL", "Tangent"}
        for method, name in (("Fisher", "fisher/standard"), ("Tangent", "joint/linear")):
            group = file[f"every_partition/{name}"]
            expected = group["cosine"][0][group["nearest"][0]]
            np.testing.assert_array_equal(by_method[method]["plaids"], expected)
        picture = bases_figures.nearest(opened)
        assert picture is not None
        assert {text.get_text() for text in picture.axes[0].get_legend().get_texts()} == set(by_method)


def test_training_together_is_a_joint_run_of_these_tasks(run: Path, world: World, tmp_path: Path) -> None:
    text = TEXT.replace('["stripes", "blobs", "corners", "plaids"]', '["corners", "stripes"]')
    text = text.replace('["standard", "linear"]', '["multitask", "multitask_linear"]').replace(
        "steps = 6", "steps = 12"
    )
    text = text.replace("[finetune.linear]\nlearning_rate = 2e-3\n", "").replace('control = "spots"', "")
    launch.measure(world.elsewhere(tmp_path / "joint.toml", text), tmp_path / "run")
    for regime in ("multitask", "multitask_linear"):
        of_cluster, alone = (
            load_file(folder / "checkpoints" / regime / name / "model.safetensors")
            for folder, name in ((run, "corners+stripes"), (tmp_path / "run", "joint"))
        )
        assert all(torch.equal(of_cluster[name], alone[name]) for name in alone)


@pytest.mark.parametrize("regime", REGIMES)
def test_a_task_is_forgotten_by_every_basis_that_has_it(run: Path, regime: str) -> None:
    """What the curves hold is taken again by recompute; here, which they are and what is chosen of them."""
    with h5py.File(run / "results.h5") as file:
        floor = 0.8 * file["single_task/pretrained/control_validation_accuracy"][()]
        start = file["single_task/pretrained/accuracy"][0]
        groups = {method: file[f"partition_negation/{method}/{regime}"] for method in ("linear", "fisher", "joint")}
        for group in groups.values():
            assert group.attrs["task"] == "stripes" and group.attrs["control"] == "spots"
            assert group["member"][()].tolist() == [2, 0, 1]
            assert group["cluster"][()].tolist() == [[0, 1, 0], [1, 1, 0], [0, 1, 1], [1, 1, 1]]
            assert group["alpha"][()].tolist() == [0, 0.5, 1, 2]
            assert (group["test_target"][:, 0] == start).all()
            bits = np.unpackbits(file[f"correct{group.name}/test_control"][()], axis=-1)
            np.testing.assert_allclose(bits.sum(-1) / 28, group["test_control"][()])
            for c in range(4):
                kept = np.flatnonzero(group["validation_control"][c] >= floor)
                best = kept[np.argmin(group["validation_target"][c][kept])]
                assert group["chosen_alpha"][c] == group["alpha"][best]
                assert group["target"][c] == group["test_target"][c, best]
                assert group["control"][c] == group["test_control"][c, best]
            assert group["cosine"][0] == pytest.approx(1, abs=1e-6)  # the task alone: τ itself
            assert group["cosine"][1] < 0.999
        for what in ("test_target", "validation_control"):
            alone = [group[what][0] for group in groups.values()]
            assert all(np.array_equal(curve, alone[0]) for curve in alone)
        assert any(not np.array_equal(group["cosine"], groups["linear"]["cosine"]) for group in groups.values())


def test_recompute_takes_every_partition_again(run: Path) -> None:
    done = analysis_command.called(
        "recompute", run, "--points", "60", "--only", "every_partition", "--only", "partition_negation"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for method in ("linear", "joint"):
        for what in ("accuracy", "cosine", "held_test", "nearest", "tuned", "normalized", "together_test",
                     "together_tuned"):
            assert f"\nevery_partition/{method}: {what} " in done.stdout
        for what in ("cosine", "test_target", "validation_control", "target"):
            assert f"\npartition_negation/{method}: {what} " in done.stdout
    assert "\nevery_partition/fisher: accuracy " not in done.stdout  # [merging] has its formula again
    for pair in ("linear+linear", "joint+task_arithmetic"):
        for what in ("accuracy", "validation_accuracy", "normalized"):
            assert f"\nevery_partition/{pair}: {what} " in done.stdout


def test_tables(run: Path) -> None:
    done = analysis_command.called("tables", run, "--only", "every_partition")
    assert done.returncode == 0, done.stderr
    assert sum(line.split()[:1] == ["standard"] for line in done.stdout.splitlines()) == 5 + 4
    assert "corners stripes | blobs" in done.stdout and "joint" in done.stdout
    done = analysis_command.called("tables", run, "--only", "partition_negation")
    assert done.returncode == 0 and sum(" joint " in line for line in done.stdout.splitlines()) == 8, done.stdout
    assert "control: spots" in done.stdout
    done = analysis_command.called("tables", run, "--only", "partition_ranks")
    assert done.returncode == 0 and "of 15" in done.stdout and "1 of 1" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ('bases.partitions.tasks=["corners", "nothing"]', ["bases.partitions.tasks", "nothing", "data.tasks"]),
        ('bases.partitions.tasks=["corners", "corners"]', ["bases.partitions.tasks", "corners"]),
        ('bases.partitions.held_out=["blobs"]', ["bases.partitions.held_out", "blobs", "tasks"]),
        ('bases.partitions.methods=["tangent"]', ["bases.partitions.methods", "tangent", "fisher"]),
        ('bases.merge_out.method="slerp"', ["bases.merge_out.method", "slerp", "two models"]),
        ('bases.partitions.methods=["slerp"]', ["bases.partitions.methods", "slerp", "up to 3 tasks", "two models"]),
        ('bases.partitions.pairs=["linear+slerp"]', ["bases.partitions.pairs", "slerp", "two models"]),
        ("bases.partitions.held_alpha=[0.5]", ["bases.partitions.held_alpha", "1"]),
        ('bases.partitions.pairs=["ties+linear"]', ["bases.partitions.pairs", "ties+linear", "methods"]),
        ('bases.partitions.pairs=["linear+joint"]', ["bases.partitions.pairs", "linear+joint", "OUT one of", "fisher"]),
        ('bases.partitions.pairs=["linear+ties", "linear+ties"]', ["bases.partitions.pairs", "twice"]),
        ('bases.partitions.regimes=["posthoc"]', ["bases.partitions.regimes", "posthoc"]),
        ('bases.partitions.negation.task="plaids"', ["bases.partitions.negation.task", "plaids", "tasks"]),
        ('data.control=""', ["bases.partitions.negation", "data.control"]),
        ("bases.merge_in.points=0", ["bases.merge_in.points", "0"]),
    ],
)
def test_wrong_settings(experiment: Path, tmp_path: Path, setting: str, expected: list[str]) -> None:
    launch.complaint(launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", "--set", setting), *expected)
