# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[merging] with data: every method's vector against its formula in plain PyTorch, on models of a small world."""

import json
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
from safetensors.numpy import load_file
from taugrid_analysis.quantities.merging import data_formulas, data_recompute, oracle_models, recompute
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.oracle import Oracle
from world import CLASSES, EXPERIMENT, TASKS, World

REGIMES = ("standard", "linear")
MASKS = ["localize_stitch", "mask_sharing", "stitch_twice", "mask_sharing_even", "stitch_twice_up"]
METHODS = ["fisher", "fisher_batch", "fisher_entropy", "regmean", "regmean_calibrated", "adamerging", *MASKS]
STANDS_FOR = {"fisher_batch": "fisher", "fisher_entropy": "fisher", "regmean_calibrated": "regmean",
              "mask_sharing_even": "mask_sharing", "stitch_twice_up": "stitch_twice"}
VARIANTS: dict[str, dict[str, Any]] = {
    "fisher": {},
    "fisher_batch": {},  # of 8, the last of 6
    "fisher_entropy": {},  # of batches, as paper 2's code
    "fisher_of_the_predicted": {"fisher": "predicted", "floor_of": "first", "normalize": False, "floor": 1e-3,
                                "inputs": "validation"},
    "regmean": {},
    "regmean_calibrated": {},
    "regmean_of_few": {"off_diagonal": 1, "points": 1, "inputs": "validation"},  # too few to invert by
    "adamerging": {},
    "adamerging_of_tasks": {"granularity": "task", "clamp": False, "inputs": "validation", "start": 0.9},
    "adamerging_of_added": {"epsilon": 0.05},
    "adamerging_of_clamped": {"start": 0.97, "learning_rate": 0.03},  # which reaches 1, and stays or comes back
    **{name: {} for name in MASKS},
    "localize_stitch_of_few": {"inputs": "validation", "regulariser": "l1", "l1": 0.3, "points_per_class": 4,
                               "points": 9, "tensors": ["encoder.layers"], "bias": 1, "start_density": 0},
}
SECTIONS = {"fisher": "points = 30\nchunk = 7\n",
            "fisher_batch": 'method = "fisher"\npoints = 30\nsquares = "batch"\nbatch = 8\n',
            "fisher_entropy": 'method = "fisher"\npoints = 30\nfisher = "entropy"\nsquares = "batch"\nbatch = 8\n'
                              "normalize = false\nfloor = 1e-12\n",  # below it F of keys' biases is rounding
            "regmean": "points = 30\nchunk = 7\n",
            "regmean_calibrated": 'method = "regmean"\npoints = 30\nchunk = 7\ncalibration = 0.2\n',
            "adamerging": "steps = 12\nbatch = 11\nlearning_rate = 0.02\n",
            "localize_stitch": "points_per_class = 9\npoints = 30\nchunk = 7\nsteps = 5\nbias = 2\n"
                               "learning_rate = 3e4\nl1 = 0.3\nstart_density = 0.1\n",
            "mask_sharing": "clusters = 2\n", "stitch_twice": "clusters = 2\n",
            "mask_sharing_even": 'method = "mask_sharing"\nclusters = 2\nrounding = "half_even"\n',
            "stitch_twice_up": 'method = "stitch_twice"\nclusters = 2\nrounding = "half_up"\n'}


def text(methods: list[str]) -> str:
    short = EXPERIMENT.split("[similarity]")[0].replace("steps = 25", "steps = 12")
    return f"{short}\n[merging]\nmethods = {methods}\nsave = true\n" + "".join(
        f"[merging.{name}]\n{SECTIONS[name]}" for name in methods)


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.elsewhere(tmp_path_factory.mktemp("experiment") / "merging.toml", text(METHODS))


@pytest.fixture(scope="module")
def runs(world: World, experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished runs by variant: one trains and has all methods as the file says, the others take its models."""
    folder = tmp_path_factory.mktemp("merging")
    launch.measure(experiment, folder / "all")
    folders = dict.fromkeys(METHODS, folder / "all")
    for name, settings in VARIANTS.items():
        method = name.split("_of_")[0]
        if name in METHODS:
            continue
        given = launch.given_by(folder / "all")
        for key, value in settings.items():
            given += ["--set", f"merging.{method}.{key}={json.dumps(value)}"]
        variant = world.elsewhere(folder / f"{name}.toml", text([method]))
        folders[name] = folder / name
        launch.measure(variant, folders[name], *given)
    return folders


@pytest.fixture(scope="module")
def run(runs: dict[str, Path]) -> Path:
    return runs[METHODS[0]]


@cache
def of(run: Path) -> Oracle:
    return Oracle(run)


@pytest.fixture(scope="module")
def file(run: Path) -> h5py.File:
    return h5py.File(run / "results.h5")


def merged(run: Path, method: str, regime: str) -> np.ndarray:
    return load_file(run / "units" / f"merging__{method}__{regime}.safetensors")["tau"]


def in_order(tau: dict[str, torch.Tensor]) -> np.ndarray:
    return np.concatenate([tau[name].numpy().ravel() for name in draws.in_order(tau)])


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_vector_is_that_of_the_formula(runs: dict[str, Path], variant: str, regime: str) -> None:
    name = variant.split("_of_")[0]
    method = STANDS_FOR.get(name, name)
    oracle = of(runs[variant])
    settings = oracle.inputs.config["merging"][name]
    every = [oracle.tau(regime, t) for t in range(len(TASKS))]
    expected = in_order(
        recompute.calibrated(data_recompute.METHODS[method](oracle, name, regime, settings), settings, every))
    tau = merged(runs[variant], name, regime)
    size = np.sqrt(np.mean(expected**2))
    # Next to directions of which no input tells, rounding is divided by what is little more than rounding.
    near = np.abs(tau - expected) < (2e-2 if "regmean_of_few" in variant else 2e-3) * size
    assert near.mean() >= (0.999 if name in MASKS else 1)  # masks are rounded: scores next to 0 fall to either side
    plain = in_order({key: sum(oracle.tau(regime, t)[key] for t in range(3)) / 3 for key in oracle.theta0})
    assert np.sqrt(np.mean((expected - plain) ** 2)) > 0.05 * size  # not the mean


@pytest.mark.parametrize(("ranks", "more"), [(1, ("--set", "run.memory=1e-5")), (4, ())])
def test_numbers_do_not_depend_on_the_ranks(experiment: Path, run: Path, tmp_path: Path, ranks: int,
                                            more: tuple[str, ...]) -> None:
    """Nor on the memory: where not all vectors fit, the merges visit the files' pages."""
    again = launch.measure(experiment, tmp_path / "run", *more, ranks=ranks)
    assert differing(numbers(run / "results.h5"), numbers(again)) == []


def test_a_group_of_ranks_shares_the_inputs(experiment: Path, run: Path, tmp_path: Path) -> None:
    launch.measure(experiment, tmp_path / "run", *launch.given_by(run), "--set", "run.ranks_per_unit=2")
    for method in METHODS:
        for regime in REGIMES:
            alone = merged(run, method, regime)
            near = np.abs(merged(tmp_path / "run", method, regime) - alone) < 2e-3 * np.abs(alone).max()
            assert near.mean() >= (0.999 if method in MASKS else 1)


@pytest.mark.parametrize("regime", REGIMES)
def test_regmean_fits_the_layers_best(run: Path, regime: str) -> None:
    """With no more than the formula's own inverse: the merged layers' outputs are nearer to the tasks' own than the
    mean's are."""
    oracle = of(run)
    tasks = range(len(TASKS))
    every = [oracle.tau(regime, t) for t in tasks]
    given = partial(data_recompute.inputs, oracle, f"merging/regmean/{regime}")
    grams = [data_formulas.layer_grams(model, given) for model in oracle_models.fine_tuned_models(oracle, regime)]
    assert len(grams[0]) == 2 * 6 + 1  # of two layers q, k, v, out, fc1, fc2; the projection
    tau = merged(run, "regmean", regime)
    place = 0
    for name in draws.in_order(oracle.theta0):
        shape = oracle.theta0[name].shape
        weight = torch.tensor(tau[place : place + shape.numel()]).double().view(shape)
        place += shape.numel()
        mean = sum(vector[name] for vector in every) / 3
        if name not in grams[0]:
            assert torch.allclose(weight, mean, rtol=1e-5, atol=1e-8)
            continue
        scaled = [0.95 * each[name] + 0.05 * each[name].diag().diag() for each in grams]
        direct = sum(vector[name] @ g for vector, g in zip(every, scaled, strict=True)) @ torch.linalg.inv(sum(scaled))
        assert (weight - direct).norm() < 1e-3 * direct.norm()

        def error(change: torch.Tensor, name: str = name) -> float:
            both = [(change - vector[name], each[name]) for vector, each in zip(every, grams, strict=True)]
            return float(sum((d @ g * d).sum() for d, g in both))

        assert error(weight) < error(mean)


@pytest.mark.parametrize("regime", REGIMES)
def test_what_regmean_took(file: h5py.File, run: Path, regime: str) -> None:
    group = file[f"merging/regmean/{regime}"]
    assert group.attrs["inputs"] == "train" and group["data_sample_index"].shape == (3, 30)
    assert group["forward_passes"][()] == 90 and group["backward_passes"][()] == 0
    # Each model where its Gram matrices are taken, of linear ones θ0; then all of them, and the matrices.
    numbers = group["bytes"][()] / group["passes"][()] / 12
    unit = load_file(run / "units" / f"merging_data__regmean__{regime}__stripes.safetensors")
    grams = sum(gram.size for name, gram in unit.items() if name.startswith("gram."))
    assert group["passes"][()] == pytest.approx((1 if regime == "linear" else 2) + grams / numbers)
    assert group["coefficient"][()] == 1


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("variant", [name for name in VARIANTS if "adamerging" in name])
def test_adamerging_learns_what_adam_through_the_merge_learns(runs: dict[str, Path], variant: str, regime: str) -> None:
    settings = {"granularity": "layer", "inputs": "test", "start": 0.3} | VARIANTS[variant]
    with h5py.File(runs[variant] / "results.h5") as file:
        group = file[f"merging/adamerging/{regime}"]
        names = [name.decode() for name in group["parameter"][()]]
        coefficients, entropy = group["lambda"][()], group["entropy"][()]
        assert (group.attrs["inputs"], group.attrs["granularity"]) == (settings["inputs"], settings["granularity"])
        assert group["forward_passes"][()] == group["backward_passes"][()] == 12 * 3 * 11
        assert group["passes"][()] == 25
    expected, values = data_recompute.learnt(of(runs[variant]), "adamerging", regime)
    assert len(names) == coefficients.shape[1] == (1 if settings["granularity"] == "task" else 2 * 16 + 8)
    assert np.abs(coefficients - expected.numpy()).max() < 2e-3
    assert np.abs(coefficients - settings["start"]).max() > 0.02
    np.testing.assert_allclose(entropy, values, rtol=1e-3)
    if "added" in variant:  # which the entropy tells
        with h5py.File(runs["adamerging"] / "results.h5") as other:
            exact = other[f"merging/adamerging/{regime}/entropy"][0]
        assert 0.01 * exact < exact - entropy[0] < 0.05 * sum(CLASSES[task] for task in TASKS)
    if "clamped" in variant:
        assert (coefficients == 1).sum() > 5 and (coefficients < 1).sum() > 5


@pytest.mark.parametrize("method", ["adamerging", "localize_stitch"])
def test_a_killed_run_goes_on_from_its_state(world: World, run: Path, tmp_path: Path, method: str) -> None:
    experiment = world.elsewhere(tmp_path / "merging.toml", text([method]))
    settings = [*launch.given_by(run), "--set", f"merging.{method}.checkpoint_seconds=0.01",
                "--set", f"merging.{method}.steps=60"]
    expected = numbers(launch.measure(experiment, tmp_path / "reference", *settings))
    folder = tmp_path / "run"
    job = launch.start(2, "run", experiment, "--run-dir", folder, *settings)
    unit = {"adamerging": "merging__adamerging__{}", "localize_stitch": "merging_data__localize_stitch__{}__stripes"}
    saved = [f"scratch/{unit[method].format(regime)}/state.safetensors" for regime in REGIMES]
    assert launch.wait_until(lambda: any((folder / path).exists() for path in saved), job)
    launch.kill_all(job)
    assert any((folder / path).exists() for path in saved)
    assert differing(expected, numbers(launch.measure(experiment, folder, *settings))) == []


@pytest.mark.parametrize("regime", REGIMES)
def test_what_masks_are_and_take(file: h5py.File, regime: str) -> None:
    localized, *others = (file[f"merging/{name}/{regime}"] for name in MASKS)
    assert (localized["masks"][()] == 3 and localized["mask_loss"].shape == (3, 5)
            and localized.attrs["inputs"] == "train")
    assert (localized["forward_passes"][()] == localized["backward_passes"][()]
            == 5 * (localized["data_sample_index"][()] >= 0).sum())
    # The model, its largest numbers by two passes at least, two a step; then all of them, by masks of a bit.
    assert 1 + 2 + 2 * 5 + 1 + 1 / 32 <= localized["passes"][()] <= 4 + 1 + 2 * 5 + 1 + 1 / 32
    assert others[0]["passes"][()] == localized["passes"][()] + 1 + 1 / 32  # and the cosines of what the masks keep
    density = localized["mask_density"][()]
    assert (density > 0.05).all() and (density < 0.8).all() and (np.abs(density - 0.1) > 0.005).any()
    labels = others[0]["labels"][()]
    assert sorted(np.bincount(labels)) == [1, 2]
    (i, j), (alone,) = (np.flatnonzero(labels == c) for c in np.argsort(-np.bincount(labels)))
    union, less, intersection, claimed = (group["mask_density"][()] for group in others)
    for group, count in zip(others, (2, 3, 2, 3), strict=True):
        assert group["masks"][()] == count
        assert np.array_equal(group["labels"][()], labels)
        assert group["mask_density"][alone] == density[alone]
    assert union[i] == union[j] and intersection[i] == intersection[j]
    np.testing.assert_allclose(union[i] + intersection[i], density[i] + density[j])  # of two tasks: ∪ and ∩
    np.testing.assert_allclose([less[i], less[j]], density[[i, j]] - intersection[i])
    assert np.array_equal(claimed, density)  # half_up keeps what two tasks claim
    twice, shared = (file[f"merging/{name}/{regime}"] for name in ("stitch_twice", "mask_sharing"))
    numbers_a_mask = localized["mask_numbers"][()] / density.sum()
    np.testing.assert_allclose(twice["mask_numbers"][()], less.sum() * numbers_a_mask)
    np.testing.assert_allclose(shared["mask_numbers"][()], (union[i] + union[alone]) * numbers_a_mask)


def test_masks_are_clustered_by_what_they_keep(world: World, run: Path, tmp_path: Path) -> None:
    """The two of three tasks are together whose masked vectors have the largest |cosine|. Masks of attention's
    output alone put others together than whole vectors would."""
    experiment = world.elsewhere(tmp_path / "merging.toml", text(["localize_stitch", "mask_sharing"]))
    launch.measure(experiment, tmp_path / "run", *launch.given_by(run),
                   "--set", 'merging.localize_stitch.tensors=["out_proj"]')
    oracle = Oracle(tmp_path / "run")

    def nearest(vectors: list[np.ndarray]) -> tuple[int, int]:
        cosine = np.abs([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in vectors] for a in vectors]) - np.eye(3)
        i, j = np.unravel_index(cosine.argmax(), cosine.shape)
        return min(i, j), max(i, j)

    others = 0
    for regime in REGIMES:
        tau = [in_order(oracle.tau(regime, t)) for t in range(3)]
        masks = [load_file(tmp_path / "run" / "units" / f"merging_data__localize_stitch__{regime}__{task}.safetensors")
                 for task in TASKS]
        i, j = nearest([v * np.unpackbits(mask["mask"])[: len(v)] for v, mask in zip(tau, masks, strict=True)])
        labels = oracle.results[f"merging/mask_sharing/{regime}/labels"][()]
        assert labels[i] == labels[j] and len(set(labels)) == 2
        others += nearest(tau) != (i, j)
    assert others > 0


@pytest.mark.parametrize("regime", REGIMES)
def test_what_fisher_took(file: h5py.File, runs: dict[str, Path], regime: str) -> None:
    classes = [CLASSES[task] for task in TASKS]
    group = file[f"merging/fisher/{regime}"]
    assert group.attrs["inputs"] == "train" and group["data_sample_index"].shape == (3, 30)
    assert group["forward_passes"][()] == 90 and group["backward_passes"][()] == 30 * sum(classes)
    # Each model where its information is taken; then all of them, and what was taken.
    assert group["passes"][()] == 3 and group["coefficient"][()] == 1 and group["alpha"][()].tolist() == [1.0]
    of_batches = file[f"merging/fisher_batch/{regime}"]
    assert of_batches["forward_passes"][()] == of_batches["backward_passes"][()] == 90
    assert np.abs(of_batches["norm"][()] / group["norm"][()] - 1).min() > 0.05
    with h5py.File(runs["fisher_of_the_predicted"] / "results.h5") as other:
        group = other[f"merging/fisher/{regime}"]
        assert group.attrs["inputs"] == "validation" and (group["data_sample_index"][()] >= 0).sum() == 60
        assert group["forward_passes"][()] == group["backward_passes"][()] == 60
        assert (group["floored"][()] > 0.2).all()  # the floor's own rule was looked at


def test_recompute_takes_them_again(run: Path) -> None:
    done = analysis_command.called("recompute", run, "--points", "60", "--only", "merging")
    assert done.returncode == 0, done.stdout + done.stderr
    for method in METHODS:
        assert f"\nmerging/{method}: test_accuracy " in done.stdout
    for name in ("fisher: norm", "fisher: floored", "adamerging: lambda", "adamerging: entropy",
                 "localize_stitch: mask_loss", "stitch_twice_up: mask_density", "mask_sharing: data_sample_index",
                 "mask_sharing: labels"):
        assert f"\nmerging/{name} " in done.stdout


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_model_says_that_it_needs_data(run: Path, method: str) -> None:
    recipe = run / "merged" / method / "standard" / "merge.toml"
    before = sorted(recipe.parent.iterdir())
    done = launch.run(1, "merge", recipe)
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    expected = f'"{STANDS_FOR.get(method, method)}", which needs data; use [merging] in an experiment'
    assert "merge_method" in lines[0] and expected in lines[0]
    assert sorted(recipe.parent.iterdir()) == before


@pytest.mark.parametrize(("settings", "expected"), [
    (["merging.fisher.fisher=some"], ["merging.fisher.fisher", "all, predicted, entropy"]),
    (["merging.fisher.inputs=test"], ["merging.fisher.inputs", "train, validation"]),
    (["merging.fisher.squares=sum"], ["merging.fisher.squares", "sample, batch"]),
    (["merging.fisher.floor=0"], ["merging.fisher.floor", "1e-30"]),
    (["merging.fisher.points=0"], ["merging.fisher.points"]),
    (["merging.regmean.off_diagonal=1.5"], ["merging.regmean.off_diagonal", "0 to 1"]),
    (["merging.adamerging.inputs=train"], ["merging.adamerging.inputs", "validation, test"]),
    (["merging.adamerging.epsilon=2"], ["merging.adamerging.epsilon", "0 to 1"]),
    (["merging.adamerging.steps=0"], ["merging.adamerging.steps", "1"]),
    (["merging.localize_stitch.inputs=test"], ["merging.localize_stitch.inputs", "train, validation"]),
    (["merging.stitch_twice.clusters=4"], ["merging.stitch_twice.clusters", "0 to 3"]),
    (["merging.stitch_twice_up.rounding=up"], ["merging.stitch_twice_up.rounding", "half_up, half_even"]),
    (["merging.stitch_twice_up.method=stitch"], ["merging.stitch_twice_up.method", "stitch_twice"]),
    (['merging.methods=["stitch"]'], ["merging.methods", "stitch_twice", "[merging.stitch]"]),
])
def test_wrong_settings(experiment: Path, tmp_path: Path, settings: list[str], expected: list[str]) -> None:
    arguments = [word for setting in settings for word in ("--set", setting)]
    launch.complaint(launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", *arguments), *expected)
