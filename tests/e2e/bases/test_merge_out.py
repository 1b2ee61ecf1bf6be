# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[bases.merge_out] by methods with data: of each task alone it is what [merging] makes of them; of clusters, what the
formulas make of models θ0 + B, each with its cluster's data."""

import json
import os
import subprocess
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import analysis_command
import h5py
import launch
import numpy as np
import pytest
import torch
from compare import differing, numbers
from safetensors import safe_open
from safetensors.numpy import load_file
from taugrid_analysis.quantities.merging import data_formulas
from taugrid_analysis.quantities.merging.oracle_models import Model
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.oracle import Oracle
from world import EXPERIMENT, REGIMES, World

MASKS = "points_per_class = 9\npoints = 20\nchunk = 7\nsteps = 4\nbias = 2\nlearning_rate = 3e4\nl1 = 0.3\n" \
    "start_density = 0.1\n"
METHODS = {
    "fisher": "points = 30\nchunk = 7\n",
    "regmean": "points = 30\nchunk = 7\n",
    "adamerging": "steps = 8\nbatch = 11\nlearning_rate = 0.02\n",
    "localize_stitch": MASKS,
}
# Variants by name: the method, and what else [bases.merge_out] sets.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in METHODS} | {
    "fisher_of_batches": ("fisher", {"squares": "batch", "batch": 8, "floor_of": "first", "floor": 1e-3}),
    "fisher_of_the_predicted": ("fisher", {"fisher": "predicted", "inputs": "validation", "normalize": False}),
    "adamerging_of_bases": ("adamerging", {"granularity": "task", "inputs": "validation", "clamp": False}),
    "mask_sharing": ("localize_stitch", {"method": "mask_sharing", "rounding": "half_even"}),
    "stitch_twice": ("localize_stitch", {"method": "stitch_twice", "rounding": "half_up"}),
}
ALPHA = [0.5, 1.0]
SOME = ["corners", "stripes", "blobs"]
TWO = (0, 1, 0, 1)  # clusters of four tasks
TEXT = EXPERIMENT.split("[similarity]")[0].replace("steps = 25", "steps = 6")
TEXT = TEXT.replace('"corners"]', '"corners", "plaids"]').replace("evaluation_points = 24", "evaluation_points = 30")


def text(name: str, bases: str = "clusters = [2, 4]\nrandom = 1\n", more: str = "") -> str:
    return f"{TEXT}\n[bases]\nalpha = {ALPHA}\n{bases}[bases.merge_out]\nmethod = \"{name}\"\n{METHODS[name]}{more}"


def merging() -> str:
    methods = METHODS | {"stitch_twice": "clusters = 2\n"}
    every = [f"[merging.{name}]\nalpha = {ALPHA}\n{keys}" for name, keys in methods.items()]
    return f"[merging]\nmethods = {list(methods)}\n" + "".join(every)


@pytest.fixture(scope="module")
def runs(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished runs by method. The first trains the models, and merges them by [merging] too."""
    folder = tmp_path_factory.mktemp("merge_out")
    folders: dict[str, Path] = {}
    for name in METHODS:
        toml = text(name, more="" if folders else merging())
        given = launch.given_by(folders["fisher"]) if folders else []
        launch.measure(world.elsewhere(folder / f"{name}.toml", toml), folder / name, *given)
        folders[name] = folder / name
    return folders


@pytest.fixture(scope="module")
def run(runs: dict[str, Path]) -> Path:
    return runs["fisher"]


@cache
def of(run: Path) -> Oracle:
    return Oracle(run)


def probed(runs: dict[str, Path], name: str, regime: str, labels: Sequence[int], out: Path,
           ranks: int = 1, **more: Any) -> np.ndarray:
    """τ of the bases of these clusters, as the run makes it."""
    method, settings = VARIANTS[name]
    settings = settings | more
    arguments = [runs[method].parent / f"{method}.toml", runs["fisher"], regime, ",".join(map(str, labels)), out]
    arguments += [f"bases.merge_out.{key}={json.dumps(value)}" for key, value in settings.items()]
    command = launch.command(ranks)
    command = [*command[: command.index(launch.PROGRAM)], os.environ["TAUGRID_BASES_PROBE"], *map(str, arguments)]
    done = subprocess.run(command, env=launch.environment(), text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=launch.PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return load_file(out)["tau"]


def in_order(tau: dict[str, torch.Tensor]) -> np.ndarray:
    return np.concatenate([tau[name].numpy().ravel() for name in draws.in_order(tau)])


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", METHODS)
def test_of_each_alone_it_is_the_merge(runs: dict[str, Path], tmp_path: Path, name: str, regime: str) -> None:
    """Bit by bit: a basis of one task is its own model, with its own data."""
    merged = load_file(runs["fisher"] / "units" / f"merging__{name}__{regime}.safetensors")["tau"]
    np.testing.assert_array_equal(probed(runs, name, regime, range(4), tmp_path / "tau"), merged)
    with h5py.File(runs["fisher"] / "results.h5") as first, h5py.File(runs[name] / "results.h5") as file:
        group, bases = first[f"merging/{name}/{regime}"], file[f"bases/{regime}"]
        assert bases.attrs["merge_out"] == name and bases["labels"][1, 0].tolist() == [0, 1, 2, 3]
        np.testing.assert_array_equal(bases["validation_accuracy"][1, 0], group["validation_accuracy"])
        np.testing.assert_array_equal(bases["accuracy"][1, 0], group["accuracy"])
        assert not np.array_equal(bases["validation_accuracy"][0], bases["validation_accuracy"][1])


@pytest.mark.parametrize("regime", REGIMES)
def test_masks_are_clustered_by_the_bases(runs: dict[str, Path], tmp_path: Path, regime: str) -> None:
    """The bases of single tasks are their vectors."""
    merged = load_file(runs["fisher"] / "units" / f"merging__stitch_twice__{regime}.safetensors")["tau"]
    two_clusters = probed(runs, "stitch_twice", regime, range(4), tmp_path / "tau", clusters=2, rounding="half_even")
    np.testing.assert_array_equal(two_clusters, merged)
    one_cluster = probed(runs, "stitch_twice", regime, range(4), tmp_path / "one", rounding="half_even")
    assert not np.array_equal(one_cluster, merged)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", VARIANTS)
def test_of_clusters_it_is_the_formula(runs: dict[str, Path], tmp_path: Path, name: str, regime: str) -> None:
    """The formula, in float64, merges the means of each cluster's vectors as models, with the cluster's data."""
    merged = probed(runs, name, regime, TWO, tmp_path / "tau")
    method, more = VARIANTS[name]
    oracle = of(runs[method])
    settings = oracle.inputs.config["bases"]["merge_out"] | more
    clusters = [tuple(t for t, label in enumerate(TWO) if label == c) for c in (0, 1)]
    bases = [{key: sum(oracle.tau(regime, t)[key] for t in cluster) / 2 for key in oracle.theta0}
             for cluster in clusters]
    models = [Model(oracle, regime, *both) for both in zip(bases, clusters, strict=True)]
    formula = data_formulas.FORMULAS[settings["method"]]
    expected = in_order(formula(models, settings, partial(data_formulas.drawn, oracle, settings)))
    size = np.sqrt(np.mean(expected**2))
    near = np.abs(merged - expected) < 2e-3 * size
    assert near.mean() >= (0.999 if method == "localize_stitch" else 1)  # scores next to 0 fall to either side
    mean = in_order({key: (bases[0][key] + bases[1][key]) / 2 for key in oracle.theta0})
    assert np.sqrt(np.mean((expected - mean) ** 2)) > 0.02 * size


@pytest.mark.parametrize("regime", REGIMES)
def test_fisher_by_plain_gradients(runs: dict[str, Path], tmp_path: Path, regime: str) -> None:
    """The definition alone, a sample and a class at a time: F of θ0 + B is the mean over both tasks' inputs."""
    oracle = of(runs["fisher"])
    labels, clusters = (0, 0, 1, 1), ((0, 1), (2, 3))
    merged = probed(runs, "fisher", regime, labels, tmp_path / "tau")
    above, below = (np.zeros(merged.size) for _ in range(2))
    for cluster in clusters:
        basis = {key: (oracle.tau(regime, cluster[0])[key] + oracle.tau(regime, cluster[1])[key]) / 2
                 for key in oracle.theta0}
        linear = regime == "linear"
        start = oracle.theta0 if linear else {key: v + basis[key] for key, v in oracle.theta0.items()}
        theta = {key: v.clone().requires_grad_() for key, v in start.items()}
        squares, samples = {key: torch.zeros_like(v) for key, v in theta.items()}, 0
        for t in cluster:
            rows = draws.sample(5, "train", oracle.tasks[t], 60, 30)
            x = oracle.sample("train", t, rows)[0]
            along = oracle.tangent(basis, x, t)[1].detach() if linear else torch.zeros(len(x), 12).double()
            for i in range(len(x)):
                output = oracle.read(theta, x[i : i + 1], t) + along[i]
                log_p = oracle.logits(t, output).log_softmax(1)[0]
                for c in range(len(log_p)):
                    slopes = torch.autograd.grad(log_p[c], list(theta.values()), retain_graph=True)
                    for key, slope in zip(theta, slopes, strict=True):
                        squares[key] += log_p[c].detach().exp() * slope**2
                samples += 1
        information = in_order({key: v / samples for key, v in squares.items()})
        weighted = np.maximum(information, 1e-6) / np.linalg.norm(information)
        above += weighted * in_order(basis)
        below += weighted
    assert samples == 60
    np.testing.assert_allclose(merged, above / below, atol=1e-3 * np.abs(merged).max())


@pytest.mark.parametrize("name", METHODS)
def test_numbers_do_not_depend_on_the_ranks(world: World, runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    """Nor on the memory."""
    experiment = world.elsewhere(tmp_path / "merge_out.toml", text(name, more="" if name != "fisher" else merging()))
    given = launch.given_by(runs["fisher"]) if name != "fisher" else []
    expected = numbers(runs[name] / "results.h5")
    for ranks, more in ((1, ("--set", "run.memory=1e-5")), (4, ())):
        results = launch.measure(experiment, tmp_path / str(ranks), *given, *more, ranks=ranks)
        assert differing(expected, numbers(results)) == []
        assert not list((tmp_path / str(ranks) / "scratch").iterdir())


@pytest.mark.parametrize("name", METHODS)
def test_a_group_of_ranks_shares_the_inputs(runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    for regime in REGIMES:
        alone = probed(runs, name, regime, TWO, tmp_path / f"{regime}-alone")
        together = probed(runs, name, regime, TWO, tmp_path / f"{regime}-two", ranks=2)
        near = np.abs(together - alone) < 2e-3 * np.abs(alone).max()
        assert near.mean() >= (0.999 if name == "localize_stitch" else 1)


def test_one_model_of_several_partitions_is_measured_once(world: World, run: Path, tmp_path: Path) -> None:
    """A sum of clusters' means counts each vector by its cluster's size, whoever else is in it."""
    toml = f"{TEXT}\n[bases]\nalpha = {ALPHA}\nclusters = [2, 3]\nrandom = 12\n"
    results = launch.measure(world.elsewhere(tmp_path / "one.toml", toml), tmp_path / "run", *launch.given_by(run))
    with h5py.File(results) as file:
        for regime in REGIMES:
            group = file[f"bases/{regime}"]
            for row, k in enumerate(group["clusters"][()]):
                labels = group["labels"][row]
                sizes = [tuple(np.bincount(partition)[partition]) for partition in labels]  # of each task's cluster
                for p, cluster_sizes in enumerate(sizes):
                    unit = load_file(tmp_path / f"run/units/bases__{regime}__{k}-{p}.safetensors")
                    first = sizes.index(cluster_sizes)
                    assert ("same" in unit) == (first < p) and unit.get("same", first) == first
                    np.testing.assert_array_equal(group["accuracy"][row, p], group["accuracy"][row, first])
                different = {tuple(partition) for partition in labels}
                assert len(different) > 1
                assert len(set(sizes)) == (1 if k == 2 else len(different))  # two and two; a pair and two


def test_slerp_within_and_between(world: World, run: Path, tmp_path: Path) -> None:
    """Three clusters of four tasks have two tasks at the most; two bases make one model."""
    for name, clusters, part in (("merge_in", 3, 0.3), ("merge_out", 2, 0.5)):
        toml = f"{TEXT}\n[bases]\nalpha = {ALPHA}\nclusters = [{clusters}]\nrandom = 2\n" \
               f'[bases.{name}]\nmethod = "slerp"\nof = "vectors"\nt = {part}\n'
        launch.measure(world.elsewhere(tmp_path / f"{name}.toml", toml), tmp_path / name, *launch.given_by(run))
        done = analysis_command.called("recompute", tmp_path / name, "--points", "40", "--only", "bases")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "\nbases: accuracy " in done.stdout and "\nbases: validation_accuracy " in done.stdout


def test_pairs_and_partitions(world: World, run: Path, tmp_path: Path) -> None:
    """Each pair has its α, which is 1 alone; each task alone is measured once; recompute finds the same numbers."""
    partitions = f"""[bases.partitions]
tasks = {SOME}
methods = ["linear", "ties"]
pairs = ["linear+fisher", "linear+localize_stitch", "ties+fisher"]
alpha = {ALPHA}
held_alpha = [0.0, 1.0]
"""
    sections = "".join(f"[bases.partitions.{name}]\n{METHODS[name]}" for name in ("fisher", "localize_stitch"))
    toml = text("regmean", "clusters = [2]\nrandom = 0\n", partitions + sections)
    launch.measure(world.elsewhere(tmp_path / "pairs.toml", toml), tmp_path / "run", *launch.given_by(run))
    with h5py.File(tmp_path / "run/results.h5") as file:
        groups = file["every_partition"]
        for regime in REGIMES:
            assert groups[f"linear/{regime}"].attrs["merge_out"] == "regmean"
            assert groups[f"linear/{regime}/alpha"][()].tolist() == ALPHA
            first, other = groups[f"linear+fisher/{regime}"], groups[f"ties+fisher/{regime}"]
            assert first.attrs["merge_out"] == "fisher" and first["alpha"][()].tolist() == [1]
            place = first["labels"][()].tolist().index([0, 1, 2])
            np.testing.assert_array_equal(first["accuracy"][place], other["accuracy"][place])
    names = [path.stem.split("__")[1] for path in (tmp_path / "run/units").glob("partition_merge__*")]
    assert sum(name == "alone+fisher" for name in names) == len(REGIMES)
    done = analysis_command.called(
        "recompute", tmp_path / "run", "--points", "60", "--only", "every_partition", "--only", "bases")
    assert done.returncode == 0, done.stdout + done.stderr
    for group in ("bases", "every_partition/linear", "every_partition/linear+fisher",
                  "every_partition/linear+localize_stitch"):
        assert f"\n{group}: accuracy " in done.stdout


@pytest.mark.parametrize("name", METHODS)
def test_recompute_takes_the_models_again(runs: dict[str, Path], name: str) -> None:
    done = analysis_command.called("recompute", runs[name], "--points", "40", "--only", "bases")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nbases: accuracy " in done.stdout and "\nbases: validation_accuracy " in done.stdout


def test_plan_counts_the_data(world: World, runs: dict[str, Path], tmp_path: Path) -> None:
    experiment = world.elsewhere(tmp_path / "same.toml", text("fisher", more=merging()))
    costs = launch.planned_costs(experiment, runs["fisher"] / "results.h5", tmp_path / "plan.json")
    for regime in REGIMES:
        data, merge, curves = (
            sum(cost for key, cost in costs.items() if key.startswith(f"{kind}/fisher/{regime}"))
            for kind in ("merging_data", "merging", "merged"))
        for k in (2, 4):  # the same inputs, however they are clustered
            assert data + 0.3 * curves < costs[f"bases/{regime}/{k}-0"] < 1.1 * (data + merge + curves)


def test_a_killed_run_goes_on_with_every_mask(world: World, run: Path, tmp_path: Path) -> None:
    """A unit learns the masks of two bases one after another, and does not learn the first again."""
    toml = text("localize_stitch", "clusters = [2]\nrandom = 1\n")
    toml = toml.replace("steps = 4", "steps = 40\ncheckpoint_seconds = 0.01")
    experiment = world.elsewhere(tmp_path / "merge_out.toml", toml)
    given = launch.given_by(run)
    expected = numbers(launch.measure(experiment, tmp_path / "reference", *given))
    folder = tmp_path / "run"
    job = launch.start(2, "run", experiment, "--run-dir", folder, *given)
    second = "scratch/bases__*/basis_1/state.safetensors"
    assert launch.wait_until(lambda: any(folder.glob(second)), job)
    launch.kill_all(job)
    assert any(folder.glob(second))
    for path in folder.glob(second):
        with safe_open(path.parents[1] / "basis_0/state.safetensors", "numpy") as first:
            assert first.metadata()["loop.steps"] == "40"
    assert differing(expected, numbers(launch.measure(experiment, folder, *given))) == []
    assert not list((folder / "scratch").iterdir())


@pytest.mark.parametrize(("settings", "expected"), [
    *((['bases.merge_out.method="' + name + '"'], ["bases.merge_out.method", name, "task_arithmetic", "fisher"])
      for name in ("joint", "nothing")),
    (['bases.merge_out={method="slerp"}'], ["bases.merge_out.method", "4 bases", "slerp", "two models"]),
    (['bases.merge_out={method="tangent"}'], ["bases.merge_out.method", "tangent", "stitch_twice"]),
    (['bases.merge_out={method="slerp"}', "bases.clusters=[2]", "bases.split_below=0.0"],
     ["bases.merge_out.method", "3 bases", "slerp"]),
    (['bases.merge_out={method="consensus_ta", tall_lambda=[0.1, 0.2, 0.3]}'],
     ["bases.merge_out.method", "2 bases", "tall_lambda", "3 numbers"]),
    (["bases.merge_out.points=0"], ["bases.merge_out.points", "0"]),
    (["bases.merge_out.inputs=test"], ["bases.merge_out.inputs", "train, validation"]),
    (["bases.merge_out.clusters=2"], ["bases.merge_out.clusters"]),
    (['bases.partitions.tasks=["stripes"]', 'bases.partitions.methods=["linear"]',
      'bases.partitions.pairs=["linear+joint"]'], ["bases.partitions.pairs", "linear+joint", "fisher", "regmean"]),
])
def test_wrong_settings(world: World, tmp_path: Path, settings: list[str], expected: list[str]) -> None:
    experiment = world.elsewhere(tmp_path / "merge_out.toml", text("fisher"))
    arguments = [word for setting in settings for word in ("--set", setting)]
    launch.complaint(launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", *arguments), *expected)
