# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[bases.merge_in] and [bases.partitions] by methods that learn on data: of all tasks in one cluster they are what
[merging] makes of them, of two tasks what it makes of these alone, of single tasks the vectors themselves."""

from pathlib import Path

import h5py
import launch
import numpy as np
import pytest
from compare import differing, numbers
from safetensors import safe_open
from safetensors.numpy import load_file
from taugrid_analysis.quantities.merging import data_recompute
from taugrid_analysis.recompute.oracle import Oracle
from test_merge_out import in_order
from world import EXPERIMENT, REGIMES, TASKS, World

ADAM = "steps = 6\nbatch = 7\nlearning_rate = 0.02\n"
MASKS = "points_per_class = 9\npoints = 20\nsteps = 4\nbias = 2\nlearning_rate = 3e4\nstart_density = 0.1\n"
# Variants by name: the method, its parameters within clusters, and what [merging] says elsewhere or otherwise.
METHODS = {
    "adamerging": ("adamerging", ADAM, "", ""),
    "adamerging_tasks": ("adamerging", ADAM + 'granularity = "task"\ninputs = "validation"\n', "", ""),
    "mask_sharing": ("mask_sharing", MASKS, "clusters = 1\n", MASKS),
    "stitch_twice": ("stitch_twice", MASKS + 'rounding = "half_up"\n', 'clusters = 1\nrounding = "half_up"\n', MASKS),
}
LAMBDA = "tall_lambdas = [0.4]\n"  # a basis has this one, where each task of [merging] chooses its own
# Parameters by method: its parameters within a cluster of two, and what [merging] says otherwise.
OF_TWO = {
    "fisher": ("points = 20\n", ""),
    "regmean": ("points = 20\n", ""),
    "adamerging": (ADAM, ""),
    "localize_stitch": (MASKS, ""),
    "mask_sharing": (MASKS, "clusters = 1\n"),
    "stitch_twice": (MASKS, "clusters = 1\n"),
    "consensus_ta": ("", LAMBDA),
    "consensus_ties": ("", LAMBDA),
}
TEXT = EXPERIMENT.split("[similarity]")[0].replace("steps = 25", "steps = 6")
ALPHA = "alpha = [0.5, 1.0]\n"
TWO = '["corners", "stripes"]'  # the last and the first


def text(name: str) -> str:
    method, inside, others, masks = METHODS[name]
    short = TEXT.replace("[data]\n", '[data]\ncontrol = "plaids"\n')
    return short + f"""
[merging]
methods = ["task_arithmetic", "{name}"]
{ALPHA}
[merging.{name}]
{'' if name == method else f'method = "{method}"'}
{ALPHA}{others or inside}
{"[merging.localize_stitch]" if masks else ""}
{masks}
[bases]
clusters = [1, 2, 3]
random = 0
{ALPHA}
[bases.merge_in]
method = "{method}"
{inside}
[bases.negation]
clusters = 1
alpha = [0.0, 1.0]
[bases.partitions]
tasks = ["stripes", "blobs", "corners"]
methods = ["{method}"]
{ALPHA}
[bases.partitions.{method}]
{inside}
"""


@pytest.fixture(scope="module")
def runs(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The first trains the models, the others take them."""
    folder = tmp_path_factory.mktemp("merge_in")
    folders: dict[str, Path] = {}
    for name in METHODS:
        given = launch.given_by(folders["adamerging"]) if folders else []
        launch.measure(world.elsewhere(folder / f"{name}.toml", text(name)), folder / name, *given)
        folders[name] = folder / name
    return folders


def vector(run: Path, unit: str, tensor: str) -> np.ndarray:
    return load_file(run / "units" / f"{unit}.safetensors")[tensor]


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", METHODS)
def test_of_all_tasks_it_is_the_merge(runs: dict[str, Path], name: str, regime: str) -> None:
    run, method = runs[name], METHODS[name][0]
    merged = vector(run, f"merging__{name}__{regime}", "tau")
    np.testing.assert_array_equal(vector(run, f"basis_vectors__{regime}", "basis_0"), merged)
    if method == "adamerging":  # of which each cluster of [bases.partitions] has a unit
        together = vector(run, f"cluster_basis__{method}__{regime}__{'+'.join(TASKS)}", "tau")
        np.testing.assert_array_equal(together, merged)
    with h5py.File(run / "results.h5") as file:
        group, bases = file[f"merging/{name}/{regime}"], file[f"bases/{regime}"]
        assert bases.attrs["merge_in"] == method and group.attrs["method"] == method
        np.testing.assert_array_equal(bases["validation_accuracy"][0, 0], group["validation_accuracy"])
        np.testing.assert_array_equal(bases["accuracy"][0, 0], group["accuracy"])
        partitions = file[f"every_partition/{method}/{regime}"]
        place = partitions["labels"][()].tolist().index([0, 0, 0])
        np.testing.assert_array_equal(partitions["validation_accuracy"][place], group["validation_accuracy"])


@pytest.fixture(scope="module")
def of_three(world: World, runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """A run of all tasks with bases of two of them, and of all by consensus_ta."""
    sections = f"""
[merging]
methods = ["consensus_ta"]
[merging.consensus_ta]
{ALPHA}{LAMBDA}
[bases]
clusters = [1]
{ALPHA}
[bases.merge_in]
method = "consensus_ta"
[bases.partitions]
tasks = {TWO}
methods = {list(OF_TWO)}
{ALPHA}
held_alpha = [1.0]
"""
    sections += "".join(f"[bases.partitions.{name}]\n{inside}" for name, (inside, _) in OF_TWO.items())
    folder = tmp_path_factory.mktemp("of_three")
    experiment = world.elsewhere(folder / "bases.toml", TEXT + sections)
    return Oracle(launch.measure(experiment, folder / "run", *launch.given_by(runs["adamerging"])).parent)


@pytest.fixture(scope="module")
def of_two(world: World, runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """A run of these two alone, which merges them."""
    sections = f"\n[merging]\nmethods = {list(OF_TWO)}\n"
    sections += "".join(f"[merging.{name}]\n{ALPHA}{others or inside}" for name, (inside, others) in OF_TWO.items())
    folder = tmp_path_factory.mktemp("of_two")
    experiment = world.elsewhere(folder / "merging.toml",
                                 TEXT.replace('["stripes", "blobs", "corners"]', TWO) + sections)
    return Oracle(launch.measure(experiment, folder / "run", *launch.given_by(runs["adamerging"])).parent)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("method", OF_TWO)
def test_of_two_of_three_it_is_the_merge_of_two(of_three: Oracle, of_two: Oracle, method: str, regime: str) -> None:
    """Which is that of the formula, where the method takes data."""
    group, bases = of_two.results[f"merging/{method}/{regime}"], of_three.results[f"every_partition/{method}/{regime}"]
    merged = vector(of_two.run, f"merging__{method}__{regime}", "tau")
    place = bases["labels"][()].tolist().index([0, 0])
    for what in ("validation_accuracy", "accuracy", "coefficient", "normalized"):
        np.testing.assert_array_equal(bases[what][place], group[what])
    third = in_order(of_three.tau(regime, 1))
    cosine = merged @ third / np.linalg.norm(merged) / np.linalg.norm(third)
    assert bases["cosine"][0, bases["cluster"][()].tolist().index([1, 1])] == pytest.approx(cosine, abs=1e-6)
    if method == "adamerging":  # of which each cluster has a unit
        unit = f"cluster_basis__{method}__{regime}__corners+stripes"
        np.testing.assert_array_equal(vector(of_three.run, unit, "tau"), merged)
    if method in data_recompute.METHODS:
        settings = of_two.inputs.config["merging"][method]
        expected = in_order(data_recompute.METHODS[method](of_two, method, regime, settings))
        near = np.abs(merged - expected) < 2e-3 * np.sqrt(np.mean(expected**2))
        assert near.mean() >= (0.999 if OF_TWO[method][0] == MASKS else 1)  # scores next to 0 fall to either side


@pytest.mark.parametrize("regime", REGIMES)
def test_consensus_of_all_tasks_is_the_merge_of_one_lambda(of_three: Oracle, regime: str) -> None:
    bases, group = of_three.results[f"bases/{regime}"], of_three.results[f"merging/consensus_ta/{regime}"]
    for what in ("validation_accuracy", "accuracy"):
        np.testing.assert_array_equal(bases[what][0, 0], group[what])


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", METHODS)
def test_of_each_alone_it_is_the_vectors(runs: dict[str, Path], name: str, regime: str) -> None:
    with h5py.File(runs[name] / "results.h5") as file:
        group, bases = file[f"merging/task_arithmetic/{regime}"], file[f"bases/{regime}"]
        assert sorted(bases["labels"][2, 0]) == [0, 1, 2]
        np.testing.assert_array_equal(bases["validation_accuracy"][2, 0], group["validation_accuracy"])
        np.testing.assert_array_equal(bases["accuracy"][2, 0], group["accuracy"])
        partitions = file[f"every_partition/{METHODS[name][0]}/{regime}"]
        place = partitions["labels"][()].tolist().index([0, 1, 2])
        np.testing.assert_array_equal(partitions["validation_accuracy"][place], group["validation_accuracy"])


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", METHODS)
def test_of_two_and_one_it_is_that_of_the_partition(runs: dict[str, Path], name: str, regime: str) -> None:
    with h5py.File(runs[name] / "results.h5") as file:
        bases, partitions = file[f"bases/{regime}"], file[f"every_partition/{METHODS[name][0]}/{regime}"]
        place = partitions["labels"][()].tolist().index(bases["labels"][1, 0].tolist())
        for what in ("validation_accuracy", "accuracy", "coefficient"):
            np.testing.assert_array_equal(bases[what][1, 0], partitions[what][place])


def test_a_cluster_is_trained_once(runs: dict[str, Path]) -> None:
    """The four sets of more than one of three tasks; of masks the tasks' own are the units."""
    for name, (method, *_) in METHODS.items():
        unit_names = [path.name for path in (runs[name] / "units").glob("cluster_basis__*")]
        assert len(unit_names) == (4 * len(REGIMES) if method == "adamerging" else 0)
        masks = list((runs[name] / "units").glob("merging_data__bases.merge_in__*"))
        assert len(masks) == (0 if method == "adamerging" else len(TASKS) * len(REGIMES))


def test_the_methods_differ_within_clusters(runs: dict[str, Path]) -> None:
    vectors = [vector(run, "basis_vectors__standard", "basis_0") for run in runs.values()]
    for i, tau in enumerate(vectors):
        assert all(np.linalg.norm(tau - other) > 0.01 * np.linalg.norm(tau) for other in vectors[:i])


def test_a_group_of_ranks_trains_a_cluster_together(world: World, runs: dict[str, Path], tmp_path: Path) -> None:
    experiment, alone = world.elsewhere(tmp_path / "group.toml", text("adamerging")), runs["adamerging"]
    launch.measure(experiment, tmp_path / "run", *launch.given_by(alone), "--set", "run.ranks_per_unit=2")
    for unit, tensor in (("basis_vectors__{}", "basis_0"), ("cluster_basis__adamerging__{}__stripes+blobs", "tau")):
        for regime in REGIMES:
            expected = vector(alone, unit.format(regime), tensor)
            of_group = vector(tmp_path / "run", unit.format(regime), tensor)
            assert np.abs(of_group - expected).max() < 2e-3 * np.abs(expected).max()


def test_plan_counts_what_is_merged(world: World, runs: dict[str, Path], tmp_path: Path) -> None:
    experiment = world.elsewhere(tmp_path / "same.toml", text("adamerging"))
    costs = launch.planned_costs(experiment, runs["adamerging"] / "results.h5", tmp_path / "plan.json")
    for regime in REGIMES:
        merge = costs[f"merging/adamerging/{regime}"]
        assert costs[f"bases/{regime}/1-0"] > costs[f"bases/{regime}/3-0"] + 0.5 * merge
        assert costs[f"basis_vectors/{regime}"] > 0.5 * merge
        pair, every = (costs[f"cluster_basis/adamerging/{regime}/{names}"]
                       for names in ("stripes+blobs", "stripes+blobs+corners"))
        assert 0.5 * every < pair < 0.8 * every  # two thirds


def test_a_killed_run_goes_on_with_every_cluster(world: World, tmp_path: Path) -> None:
    """A unit trains two clusters of two tasks one after another, and does not train the first again."""
    short = TEXT.replace('"corners"]', '"corners", "plaids"]').replace('["standard", "linear"]', '["standard"]')
    short = short.replace("[finetune.linear]\nlearning_rate = 2e-3\n", "")
    steps = ADAM.replace("steps = 6", "steps = 80\ncheckpoint_seconds = 0.01")
    experiment = world.elsewhere(tmp_path / "merge_in.toml",
                                 f'{short}[bases]\nclusters = [2]\nrandom = 3\n{ALPHA}'
                                 f'[bases.merge_in]\nmethod = "adamerging"\n{steps}')
    expected = launch.measure(experiment, tmp_path / "reference")
    with h5py.File(expected) as file:
        labels = file["bases/standard/labels"][0]
        assert (labels.sum(1) == 2).all() and len(np.unique(labels, axis=0)) > 1
    folder = tmp_path / "run"
    job = launch.start(2, "run", experiment, "--run-dir", folder)
    second = "scratch/bases__standard__*/cluster_1/state.safetensors"
    assert launch.wait_until(lambda: any(folder.glob(second)), job)
    launch.kill_all(job)
    for path in folder.glob(second):
        with safe_open(path.parents[1] / "cluster_0/state.safetensors", "numpy") as first:
            assert first.metadata()["loop.steps"] == "80"
    assert any(folder.glob(second))
    assert differing(numbers(expected), numbers(launch.measure(experiment, folder))) == []
    assert not any((folder / "scratch").glob("bases__*"))


@pytest.mark.parametrize(("setting", "expected"), [
    ('bases.merge_in={method="slerp"}', ["bases.merge_in.method", "clusters of up to 3 tasks", "slerp", "two models"]),
    ('bases.merge_in={method="consensus_ta", tall_lambda=[0.1, 0.2]}', ["clusters of up to 3 tasks", "tall_lambda"]),
    ('bases.merge_in={method="tangent"}', ["bases.merge_in.method", "tangent", "joint"]),
    ('bases.merge_in={method="nothing"}', ["bases.merge_in.method", "nothing", "adamerging", "slerp"]),
    ("bases.merge_in.steps=0", ["bases.merge_in.steps", "0"]),
    ('bases.merge_in.inputs="train"', ["bases.merge_in.inputs", "validation, test"]),
    ("bases.merge_in.clusters=1", ["bases.merge_in.clusters"]),  # of masks alone
])
def test_wrong_settings(world: World, tmp_path: Path, setting: str, expected: list[str]) -> None:
    experiment = world.elsewhere(tmp_path / "merge_in.toml", text("adamerging"))
    launch.complaint(launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", "--set", setting), *expected)
