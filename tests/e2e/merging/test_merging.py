# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[merging]: merged models of a run's task vectors; the methods themselves are tested by test_merge.py."""

import csv
import shutil
import tomllib
from pathlib import Path

import analysis_command
import h5py
import launch
import numpy as np
import pytest
from compare import differing, numbers
from safetensors.numpy import load_file
from taugrid_analysis.quantities.merging import figures as merging_figures
from taugrid_analysis.quantities.merging import formulas
from taugrid_analysis.quantities.merging.models import of_run
from taugrid_analysis.run.opened import Run
from transformers import CLIPVisionModelWithProjection
from world import EXPERIMENT, TASKS, World

REGIMES = ("standard", "linear")
STANDS_FOR = {"ties_sum": "ties", "top_k_calibrated": "top_k", "iso_calibrated": "iso_c",
              "consensus_calibrated": "consensus_ta"}
METHODS = ["linear", "task_arithmetic", "ties", "dare_linear", "dare_ties", "della", "top_k", "breadcrumbs",
           "breadcrumbs_ties", "magmax", "emr", "model_stock", "sce", "multislerp", "karcher", "consensus_ta",
           "consensus_ties", "tsv_m", "iso_c", "iso_cts", "wudi", "cart", "dc_merge", "ram", "ramplus_tl", "pcb"]
WITHOUT_COEFFICIENT = ["linear", "model_stock", "sce", "multislerp", "karcher", "cart", "ram", "ramplus_tl"]
ALPHA = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
TEXT = EXPERIMENT.split("[similarity]")[0].replace("steps = 25", "steps = 12") + f"""
[addition]
alpha = {ALPHA}
[merging]
methods = {[*METHODS, *STANDS_FOR]}
alpha = [0.5, 1.0, 1.5]
save = true
[merging.task_arithmetic]
alpha = {ALPHA}
[merging.ties]
density = 0.3
[merging.ties_sum]
method = "ties"
density = 0.3
merge = "sum"
[merging.top_k_calibrated]
method = "top_k"
calibration = 0.1
[merging.iso_calibrated]
method = "iso_c"
calibration = 1.0
[merging.consensus_calibrated]
method = "consensus_ta"
tall_lambdas = [0.3]
calibration = 0.2
[merging.dare_ties]
rescale_by = "l1"
scope = "tensor"
[merging.consensus_ties]
tall_lambdas = [0.4]
[merging.breadcrumbs_ties]
zero_sign = "positive"
[merging.sce]
select_topk = 0.5
[merging.karcher]
of = "vectors"
[similarity]
density = 0.3
"""


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.elsewhere(tmp_path_factory.mktemp("experiment") / "merging.toml", TEXT)


@pytest.fixture(scope="module")
def run(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("merging") / "run"
    launch.measure(experiment, folder)
    return folder


@pytest.fixture(scope="module")
def file(run: Path) -> h5py.File:
    return h5py.File(run / "results.h5")


@pytest.mark.parametrize(("ranks", "more"), [(1, ("--set", "run.memory=1e-5")), (4, ())])
def test_numbers_do_not_depend_on_the_ranks(experiment: Path, run: Path, tmp_path: Path, ranks: int,
                                            more: tuple[str, ...]) -> None:
    """Nor on the memory: where two of the three vectors fit, the merges visit the files' pages."""
    again = launch.measure(experiment, tmp_path / "run", *more, ranks=ranks)
    assert differing(numbers(run / "results.h5"), numbers(again)) == []


def test_a_group_of_ranks_makes_the_same_merges(experiment: Path, run: Path, tmp_path: Path) -> None:
    """Together, where a team can share a method: bitwise the same, in as many passes."""
    folder = tmp_path / "run"
    together_out_of_core = ("--set", "run.ranks_per_unit=2", "--set", "run.memory=1e-5")
    launch.measure(experiment, folder, *launch.given_by(run), *together_out_of_core)
    with h5py.File(run / "results.h5") as alone, h5py.File(folder / "results.h5") as together:
        for method in [*METHODS, *STANDS_FOR]:
            for regime in REGIMES:
                ours, theirs = (file[f"merging/{method}/{regime}"] for file in (together, alone))
                for name in ("density", "passes", "bytes"):
                    assert ours[name][()] == theirs[name][()], (method, regime, name)
                if ours["coefficient"][()] != theirs["coefficient"][()]:
                    continue  # two that are as good, on points that were evaluated in other batches
                models = [load_file(each / "merged" / method / regime / "model.safetensors") for each in (folder, run)]
                for name, value in models[0].items():
                    np.testing.assert_array_equal(value, models[1][name], err_msg=f"{method} {regime} {name}")


def test_regimes_whose_vectors_are_merged(world: World, tmp_path: Path) -> None:
    text = EXPERIMENT.split("[similarity]")[0].replace("steps = 25", "steps = 4")
    few = world.elsewhere(tmp_path / "few.toml", text + """
        [merging]
        methods = ["task_arithmetic"]
        regimes = ["linear"]
        alpha = [1.0]
    """)
    with h5py.File(launch.measure(few, tmp_path / "run")) as file:
        assert list(file["merging/task_arithmetic"]) == ["linear"]
        assert set(REGIMES) <= set(file["single_task"])


@pytest.mark.parametrize("regime", REGIMES)
def test_task_arithmetic_is_addition(file: h5py.File, regime: str) -> None:
    ours, theirs = file[f"merging/task_arithmetic/{regime}"], file[f"addition/{regime}"]
    for name in ("alpha", "validation_accuracy", "test_accuracy", "absolute", "normalized", "sample_index"):
        assert np.array_equal(ours[name][()], theirs[name][()]), name
    assert ours["coefficient"][()] == theirs["chosen_alpha"][()]
    bits = [file[f"correct{group.name}/test_accuracy"][()] for group in (ours, theirs)]
    assert np.array_equal(*bits)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("method", METHODS)
def test_what_is_chosen(file: h5py.File, method: str, regime: str) -> None:
    group, single = file[f"merging/{method}/{regime}"], file[f"single_task/{regime}"]
    alphas = {name: [1.0] for name in WITHOUT_COEFFICIENT} | {"task_arithmetic": ALPHA}
    assert group["alpha"][()].tolist() == alphas.get(method, [0.5, 1.0, 1.5])
    best = int(np.argmax((group["validation_accuracy"][()] / single["validation_accuracy"][()]).mean(1)))
    assert group["coefficient"][()] == group["alpha"][best]
    assert np.array_equal(group["accuracy"][()], group["test_accuracy"][best])
    assert group["absolute"][()] == pytest.approx(group["accuracy"][()].mean())
    assert group["normalized"][()] == pytest.approx((group["accuracy"][()] / single["accuracy"][()]).mean())
    # Where λ of masks is chosen (consensus_ta): before masks, for each mask its vector and the whole, and with masks.
    passes = {"ties": 3, "top_k": 3, "consensus_ta": 4, "consensus_ties": 3, "dare_ties": 2,
              "model_stock": 2, "sce": 5, "multislerp": 2, "karcher": 2, "ramplus_tl": 2, "pcb": 6,
              "breadcrumbs": 4, "breadcrumbs_ties": 4}.get(method, 1)
    # A majority may take another; short tensors have no outliers to be looked for.
    spare = 1.001 if "ties" in method or method == "breadcrumbs" else 1e-9
    assert passes - 1e-9 <= group["passes"][()] <= passes + spare
    bits = np.unpackbits(file[f"correct/merging/{method}/{regime}/test_accuracy"][()], axis=-1)
    assert np.allclose(bits.mean(-1), group["test_accuracy"][()])


@pytest.mark.parametrize("regime", REGIMES)
def test_the_vector_is_merged_of_the_checkpoints(world: World, run: Path, file: h5py.File, regime: str) -> None:
    start = load_file(world.weights)
    models = [load_file(run / "checkpoints" / regime / task / "model.safetensors") for task in TASKS]
    tau = np.stack([formulas.flat({name: x.astype(np.float64) - start[name] for name, x in model.items()
                                 if x.dtype == np.float32}) for model in models])
    expected = formulas.ties(tau, np.ones(3), 0.3)
    stored = load_file(run / "units" / f"merging__ties__{regime}.safetensors")["tau"]
    # Its numbers lie in the order of the model.
    assert np.abs(np.sort(stored) - np.sort(expected)).max() < 1e-6
    assert file[f"merging/ties/{regime}/density"][()] == pytest.approx((expected != 0).mean(), abs=1e-4)


@pytest.mark.parametrize("regime", REGIMES)
def test_each_task_chooses_the_mask_that_is_best_for_it(run: Path, file: h5py.File, regime: str) -> None:
    group = file[f"merging/consensus_ta/{regime}"]
    tried, accuracy, chosen = (group[name][()] for name in ("mask_lambda", "mask_accuracy", "tall_lambda"))
    assert tried.tolist() == [0.2, 0.3, 0.4, 0.5, 0.6] and accuracy.shape == (len(TASKS), 5)
    assert np.array_equal(chosen, tried[accuracy.argmax(1)])
    assert len(set(chosen)) > 1 and np.ptp(accuracy, axis=1).max() > 0
    units = [load_file(run / "units" / f"{kind}__consensus_ta__{regime}.safetensors")["tau"]
             for kind in ("whole_merge", "merging")]
    start = load_file(run / "checkpoints" / "pretrained" / "model.safetensors")
    names = [name for name, x in start.items() if x.dtype == np.float32]
    tau = np.stack([np.concatenate([(model[name].astype(np.float64) - start[name]).ravel() for name in names])
                    for model in (load_file(run / "checkpoints" / regime / task / "model.safetensors")
                                  for task in TASKS)])
    # Their numbers lie in the order of the model.
    assert np.abs(np.sort(units[0]) - np.sort(tau.sum(0))).max() < 1e-6
    expected = formulas.consensus(tau, tau.sum(0), chosen, 2)
    assert np.mean(np.abs(np.sort(units[1]) - np.sort(expected)) < 1e-6) > 0.999
    density = formulas.claimed(tau, tau.sum(0), chosen).mean(1)
    np.testing.assert_allclose(group["mask_density"][()], density, atol=1e-4)
    validation = min(80, file[f"merging/consensus_ta/{regime}/validation_sample_index"].shape[1])
    assert 0 < group["forward_passes"][()] <= 5 * len(TASKS) * validation and group["backward_passes"][()] == 0
    assert "tall_lambda" not in file[f"merging/consensus_ties/{regime}"]  # of one λ


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("method", ["task_arithmetic", "ties", "dare_linear", "consensus_ta", "consensus_ties",
                                    "iso_cts"])
def test_the_chosen_model_is_saved_with_its_recipe(run: Path, file: h5py.File, method: str,
                                                   regime: str) -> None:
    folder = run / "merged" / method / regime
    recipe = tomllib.loads((folder / "merge.toml").read_text())
    assert recipe["parameters"]["lambda"] == file[f"merging/{method}/{regime}/coefficient"][()]
    assert ("A linear regime's" in (folder / "merge.toml").read_text()) == (regime == "linear")
    if method.startswith("consensus"):
        chosen = file[f"merging/{method}/{regime}/tall_lambda"][()].tolist() if method == "consensus_ta" else 0.4
        assert recipe["parameters"]["tall_lambda"] == chosen
    done = launch.run(1, "merge", folder / "merge.toml")
    assert done.returncode == 0, done.stderr
    ours, again = (load_file(path / "model.safetensors") for path in (folder, folder / "again"))
    shutil.rmtree(folder / "again")
    assert set(ours) == set(again)
    for name in ours:
        if method != "dare_linear":  # whose draws follow the tensors' order
            np.testing.assert_allclose(ours[name], again[name], rtol=0, atol=2e-6, err_msg=name)
    assert CLIPVisionModelWithProjection.from_pretrained(folder).config.hidden_size > 0


@pytest.mark.parametrize(("lambdas", "expected"), [
    ("[0.2, 0.3]", ["tall_lambda has 2 numbers", "one for each of 3 models"]),
    ("[]", ["parameters.tall_lambda", "is empty"]),
    ("[0.2, 0.3, -1]", ["parameters.tall_lambda", "0 to 100"]),
])
def test_lambdas_of_other_models(run: Path, lambdas: str, expected: list[str]) -> None:
    folder = run / "merged" / "consensus_ta" / "standard"
    lines = (folder / "merge.toml").read_text().splitlines()
    wrong = folder / "wrong.toml"
    wrong.write_text("\n".join(f"tall_lambda = {lambdas}" if x.startswith("tall_lambda") else x for x in lines))
    done = launch.run(1, "merge", wrong)
    wrong.unlink()
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert all(text in done.stderr for text in expected), done.stderr
    assert not (folder / "again").exists()


def test_one_lambda_in_a_list_is_that_of_all_models(run: Path) -> None:
    """As `tall_lambdas = [0.4]` of an experiment: no other reading of it is possible."""
    folder = run / "merged" / "consensus_ties" / "standard"
    text = (folder / "merge.toml").read_text()
    assert "tall_lambda = 0.4\n" in text
    listed = folder / "listed.toml"
    listed.write_text(text.replace("tall_lambda = 0.4", "tall_lambda = [0.4]"))
    done = launch.run(1, "merge", listed)
    listed.unlink()
    assert done.returncode == 0, done.stderr
    ours, again = (load_file(path / "model.safetensors") for path in (folder, folder / "again"))
    shutil.rmtree(folder / "again")
    for name in ours:
        np.testing.assert_allclose(ours[name], again[name], rtol=0, atol=2e-6, err_msg=name)


def test_what_a_saved_model_with_data_was_made_of(world: World, run: Path, tmp_path: Path) -> None:
    toml = TEXT.split("[addition]")[0] + """
[merging]
methods = ["mask_sharing", "stitch_twice", "joint"]
save = true
[merging.mask_sharing]
clusters = 2
[merging.localize_stitch]
points = 9
steps = 2
"""
    results = launch.measure(world.elsewhere(tmp_path / "data.toml", toml), tmp_path / "run", *launch.given_by(run))
    texts = {method: (tmp_path / "run/merged" / method / "standard/merge.toml").read_text()
             for method in ("mask_sharing", "stitch_twice", "joint")}
    with h5py.File(results) as file:
        for method in ("mask_sharing", "stitch_twice"):
            labels = file[f"merging/{method}/standard/labels"][()].tolist()
            clusters = ["+".join(task for task, label in zip(TASKS, labels, strict=True) if label == c)
                        for c in range(max(labels) + 1)]
            lines = texts[method].splitlines()
            assert f"# The clusters that it took: {', '.join(clusters)}" in lines
            assert "#   points = 9" in lines and "#   steps = 2" in lines and "#   bias = 5.0" in lines
            assert not any("alpha" in line for line in lines)
    assert tomllib.loads(texts["mask_sharing"])["parameters"] == {
        "lambda": 1.0, "clusters": 2, "rounding": "half_up", "calibration": 0.0}
    assert '# Its weights before lambda are those of "../../../checkpoints/multitask/joint"' in texts["joint"]
    assert not any("tall_lambda" in text for text in texts.values())


def test_recompute_takes_merged_models_again(run: Path, tmp_path: Path) -> None:
    done = analysis_command.called("recompute", run, "--points", "80", "--only", "merging")
    assert done.returncode == 0, done.stdout + done.stderr
    for method in [*METHODS, *STANDS_FOR]:
        assert f"\nmerging/{method}: coefficient " in done.stdout
        is_drawn = method.startswith(("dare", "della"))
        assert (f"\nmerging/{method}: test_accuracy " in done.stdout) == (not is_drawn), method
    for what in ("mask_accuracy", "mask_density", "tall_lambda"):
        assert f"\nmerging/consensus_ta: {what} " in done.stdout
    copy = Path(shutil.copytree(run, tmp_path / "run", symlinks=True,
                                ignore=shutil.ignore_patterns("units", "log", "results.digest")))
    with h5py.File(copy / "results.h5", "r+") as file:
        for regime in REGIMES:
            file[f"merging/iso_c/{regime}/test_accuracy"][...] -= 0.25
    done = analysis_command.called("recompute", copy, "--points", "80", "--only", "merging")
    assert done.returncode == 1 and "merging/iso_c: test_accuracy" in done.stdout.splitlines()[-1]


def test_the_table(run: Path) -> None:
    done = analysis_command.called("tables", run, "--only", "merging")
    assert done.returncode == 0, done.stderr
    every = [*METHODS, *STANDS_FOR]
    lines = [line for line in done.stdout.splitlines() if line.split()[:1] in (["standard"], ["linear"])]
    assert {line.split()[1] for line in lines} == set(every)
    assert len(lines) == 2 * len(every)
    assert sum("±" in line for line in lines) == len(lines)


def test_what_a_merge_costs(run: Path, file: h5py.File) -> None:
    """Seconds of its unit, bytes and passes, in the file, the frame and the picture of accuracy over cost."""
    with Run(run) as opened:
        frame = of_run(opened).set_index(["method", "regime"])
        picture = merging_figures.accuracy_over_cost(opened)
    units = {key.decode(): seconds for key, seconds in file["units"].fields(["key", "seconds"])[()].tolist()}
    assert len(frame) == len(REGIMES) * (len(METHODS) + len(STANDS_FOR))
    for (method, regime), row in frame.iterrows():
        group = file[f"merging/{method}/{regime}"]
        made_by = [f"merging/{method}/{regime}"]
        if method == "consensus_ta":
            made_by += [f"whole_merge/{method}/{regime}", *(f"merging_data/{method}/{regime}/{task}" for task in TASKS)]
        assert group["seconds"][()] == pytest.approx(sum(map(units.get, made_by)), rel=1e-6) and row.seconds > 0
        numbers = sum(x.size for x in load_file(run / "units" / f"merging__{method}__{regime}.safetensors").values()
                      if x.dtype == np.float32)
        assert row.bytes == pytest.approx(4 * len(TASKS) * numbers * row.passes)
        assert row.normalized == pytest.approx(group["normalized"][()]) and row.of == STANDS_FOR.get(method, method)
    assert picture is not None and len(picture.axes) == len(REGIMES) * 4
    for axes, regime in zip(picture.axes[::4], REGIMES, strict=True):
        assert {text.get_text() for text in axes.texts} == {*METHODS, *STANDS_FOR}
        assert axes.get_ylabel().startswith(regime)


def test_choices_of_one_method(run: Path, file: h5py.File) -> None:
    """Each name that stands for a method beside it, with the paired error of their difference."""
    done = analysis_command.called("tables", run, "--only", "choices", "--format", "csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(line for line in done.stdout.splitlines() if not line.startswith("#")))
    assert {row["choice"] for row in rows} == {*STANDS_FOR, *STANDS_FOR.values()}
    rows = [row for row in rows if row["choice"].startswith("ties")]
    assert [row["choice"] for row in rows] == ["ties", "ties_sum"] * len(REGIMES)
    for first, second, regime in zip(rows[::2], rows[1::2], REGIMES, strict=True):
        bits, points = [], None
        for name in ("ties", "ties_sum"):
            group, right = file[f"merging/{name}/{regime}"], file[f"correct/merging/{name}/{regime}/test_accuracy"]
            best = group["alpha"][()].tolist().index(group["coefficient"][()])
            points = int(np.max(right.attrs["points"]))
            bits.append(np.unpackbits(right[best], axis=-1)[:, :points].astype(int))
        apart = bits[1] - bits[0]
        assert float(second["− first"]) == pytest.approx(apart.mean())
        assert float(first["range"]) == pytest.approx(abs(apart.mean()))
        variance = sum(max(points * ((of_task**2).mean() - of_task.mean() ** 2), 1) / points**2 for of_task in apart)
        assert float(second["− first error"]) == pytest.approx(np.sqrt(variance) / len(TASKS))


def test_recompute_takes_signs_and_masks_again(run: Path) -> None:
    done = analysis_command.called("recompute", run, "--points", "60", "--only", "similarity")
    assert done.returncode == 0, done.stdout + done.stderr
    for what in ("sign_conflict", "sign_conflict_all", "mask_overlap", "mask_density"):
        assert f"\nsimilarity: {what} " in done.stdout


@pytest.mark.parametrize(("settings", "expected"), [
    (['merging.methods=["slerp"]'], ["slerp", "two models", "3"]),
    (['merging.methods=["tise"]'], ["merging.methods", "ties"]),
    (["merging.methods=[]"], ["merging.methods", "is empty; expected one method"]),
    (['merging.regimes=["attention"]'], ["merging.regimes", "attention", "standard, linear"]),
    (["merging.ties.density=0"], ["merging.ties.density", "above 0"]),
    (["merging.ties.scope=layer"], ["scope", "vector, tensor"]),
    (['merging.methods=["linear"]'], ["merging.t"]),  # the file's sections of methods that were not asked for
    (["merging.alpha=[]"], ["merging.alpha", "empty"]),
    (["merging.consensus_ties.tall_lambdas=[-1]"], ["merging.consensus_ties.tall_lambdas", "0 to 100"]),
    (["merging.consensus_ties.tall_lambda=0.4"], ["merging.consensus_ties.tall_lambda", "tall_lambdas"]),
])
def test_wrong_settings(experiment: Path, tmp_path: Path, settings: list[str], expected: list[str]) -> None:
    arguments = [word for setting in settings for word in ("--set", setting)]
    launch.complaint(launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", *arguments), *expected)
