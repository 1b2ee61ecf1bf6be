# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[bases]: clusters of task vectors, and what is merged of them, from the run folder alone."""

import csv
import shutil
from pathlib import Path

import analysis_command
import h5py
import launch
import numpy as np
import pytest
import torch
from compare import differing, numbers
from safetensors.torch import load_file
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score
from taugrid_analysis.quantities.bases import figures as bases_figures
from taugrid_analysis.quantities.low_rank import recompute as low_rank_recompute
from taugrid_analysis.quantities.merging import formulas
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.oracle import Oracle, flat
from taugrid_analysis.run.opened import Run
from transformers import CLIPVisionModelWithProjection
from world import EXPERIMENT, REGIMES, TASKS, T, World, in_parts

ALPHA = [0.5, 1.0, 2.0]
MIXED = [0.0, 0.25, 1.0]
RANDOM = 4
CONTROL = 'control = "plaids"\ncontrol_points = 28\n'
SUMS = [1 / 3, 1.0]
CROSS = [-1.0, 1.0]
TEXT = EXPERIMENT.split("[similarity]")[0].replace("steps = 25", "steps = 12") + f"""
[similarity]
sum_alpha = {SUMS}
cross_alpha = {CROSS}
[bases]
random = {RANDOM}
alpha = {ALPHA}
[bases.merge_in]
method = "ties"
density = 0.4
[bases.negation]
alpha = {(NEGATED := [0.0, 0.5, 1.5])}
control_threshold = 0.8
[bases.held_out]
alpha = {(ADDED := [0.0, 0.5, 1.0])}
threshold = 0.05
[bases.low_rank]
bases = [1, 2]
alpha = {ADDED}
steps = 400
[bases.low_rank.negation]
alpha = {NEGATED}
control_threshold = 0.8
"""
TEXT = TEXT.replace("[data]\n", "[data]\n" + CONTROL)
TEXT = TEXT.replace("[finetune]\n", "[finetune]\nkeep = [1, 3]\nkeep_epochs = [1, 2]\n")


@pytest.fixture(scope="module")
def other(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second pre-trained model."""
    folder = tmp_path_factory.mktemp("other") / "second"
    torch.manual_seed(12)
    second = CLIPVisionModelWithProjection.from_pretrained(world.model)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    second.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def experiment(world: World, other: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    mixed = f'[bases.mixed]\nother = "{other}"\nalpha = {MIXED}\n'
    return world.elsewhere(tmp_path_factory.mktemp("experiment") / "bases.toml", TEXT + mixed)


@pytest.fixture(scope="module")
def run(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bases") / "run"
    launch.measure(experiment, folder)
    return folder


@pytest.fixture(scope="module")
def again(run: Path) -> Oracle:
    return Oracle(run)


@pytest.mark.parametrize(("ranks", "more"), [(1, ("--set", "run.memory=1e-5")), (4, ())])
def test_numbers_do_not_depend_on_the_ranks(experiment: Path, run: Path, tmp_path: Path, ranks: int,
                                            more: tuple[str, ...]) -> None:
    """Nor on the memory, where not all vectors fit."""
    results = launch.measure(experiment, tmp_path / "run", *more, ranks=ranks)
    assert differing(numbers(run / "results.h5"), numbers(results)) == []


@pytest.mark.parametrize("regime", REGIMES)
def test_similarities_and_their_eigenvalues(again: Oracle, regime: str) -> None:
    group = again.results[f"bases/{regime}"]
    tau = torch.stack([flat(again.tau(regime, t)) for t in T]).numpy()
    norm = np.linalg.norm(tau, axis=1)
    cosine = (tau @ tau.T) / np.outer(norm, norm)
    np.testing.assert_allclose(group["cosine"], cosine, atol=1e-5)
    w = np.abs(group["cosine"][()])
    np.fill_diagonal(w, 0)
    degree = w.sum(1)
    np.testing.assert_allclose(group["eigenvalues"], np.linalg.eigvalsh(np.diag(degree) - w), atol=1e-9)
    scaled = np.eye(len(TASKS)) - w / np.sqrt(np.outer(degree, degree))
    np.testing.assert_allclose(group["normalised_eigenvalues"], np.linalg.eigvalsh(scaled), atol=1e-9)
    assert group["chosen_clusters"][()] == 2  # of three tasks there is one gap that counts


@pytest.mark.parametrize("regime", REGIMES)
def test_partitions(again: Oracle, regime: str) -> None:
    labels = again.results[f"bases/{regime}/labels"][()]
    assert labels.shape == (3, 1 + RANDOM, 3)
    assert labels[0, 0].tolist() == [0, 0, 0] and labels[2, 0].tolist() == [0, 1, 2]
    assert (labels[[0, 2], 1:] == -1).all()  # there are no others
    sizes = [sorted(np.bincount(row).tolist()) for row in labels[1]]
    assert sizes == [[1, 2]] * (1 + RANDOM) and len({tuple(row) for row in labels[1].tolist()}) > 1
    assert (labels[1, :, 0] == 0).all()  # numbered as they come
    affinity = np.abs(again.results[f"bases/{regime}/cosine"][()])
    np.fill_diagonal(affinity, 0)
    oracle = SpectralClustering(2, affinity="precomputed", n_init=20, random_state=0).fit_predict(affinity)
    assert adjusted_rand_score(labels[1, 0], oracle) == 1
    vector_bytes = 4 * sum(v.numel() for v in again.theta0.values())
    stored = [[vector_bytes] + [0] * RANDOM, [2 * vector_bytes] * (1 + RANDOM), [3 * vector_bytes] + [0] * RANDOM]
    assert again.results[f"bases/{regime}/bytes"][()].tolist() == stored


def bases_of(tau: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    clusters = [tau[labels == c] for c in range(labels.max() + 1)]
    return [c[0] if len(c) == 1 else formulas.ties(c, np.ones(len(c)), 0.4) for c in clusters]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def accuracy(
    again: Oracle, regime: str, tau: np.ndarray, alpha: float, t: int, rows: str, split: str
) -> tuple[float, int]:
    parts = torch.tensor(tau).split([v.numel() for v in again.theta0.values()])
    step = {k: alpha * part.view_as(v) for (k, v), part in zip(again.theta0.items(), parts, strict=True)}
    x, y = again.points(rows, t, split)
    return float((again.logits(t, again.through(regime, step, x, t)).argmax(1) == y).double().mean()), len(y)


@pytest.mark.parametrize("regime", REGIMES)
def test_models_of_bases(again: Oracle, regime: str) -> None:
    group, single = again.results[f"bases/{regime}"], again.results[f"single_task/{regime}"]
    tau = torch.stack([flat(again.tau(regime, t)) for t in T]).numpy()
    for row in range(3):
        for p in range(1 + RANDOM):
            labels = group["labels"][row, p]
            if labels[0] < 0:
                assert np.isnan(group["normalized"][row, p]) and np.isnan(group["accuracy"][row, p]).all()
                continue
            merged = np.sum(bases_of(tau, labels), axis=0)
            for split, name in (("test", "sample_index"), ("validation", "validation_sample_index")):
                for t in T:
                    alphas = ALPHA if split == "validation" else [group["coefficient"][row, p]]
                    for a, alpha in enumerate(alphas):
                        right, n = accuracy(again, regime, merged, alpha, t, f"{group.name}/{name}", split)
                        stored = (group["validation_accuracy"][row, p, a, t] if split == "validation"
                                  else group["accuracy"][row, p, t])
                        assert stored == pytest.approx(right, abs=1.01 / n)
            shares = (group["validation_accuracy"][row, p] / single["validation_accuracy"][()]).mean(1)
            assert group["coefficient"][row, p] == ALPHA[int(np.argmax(shares))]
            test = group["accuracy"][row, p]
            assert group["absolute"][row, p] == pytest.approx(test.mean())
            assert group["normalized"][row, p] == pytest.approx((test / single["accuracy"][()]).mean())


@pytest.mark.parametrize("regime", REGIMES)
def test_a_partition_that_is_drawn_again_is_measured_once(run: Path, again: Oracle, regime: str) -> None:
    """Three tasks have three partitions into two clusters, and five are drawn."""
    group = again.results[f"bases/{regime}"]
    labels = group["labels"][1].tolist()
    units = [load_file(run / "units" / f"bases__{regime}__2-{p}.safetensors") for p in range(len(labels))]
    for p, unit in enumerate(units):
        first = labels.index(labels[p])
        assert ("same" in unit) == (first < p) and (first == p or unit["same"].item() == first)
        for what in ("accuracy", "validation_accuracy", "coefficient", "normalized"):
            np.testing.assert_array_equal(group[what][1, p], group[what][1, first])
    assert any("same" in unit for unit in units)


@pytest.mark.parametrize("regime", REGIMES)
def test_negation_with_the_nearest_basis(again: Oracle, regime: str) -> None:
    group = again.results[f"basis_negation/{regime}"]
    tau = torch.stack([flat(again.tau(regime, t)) for t in T]).numpy()
    labels = group["labels"][()]
    assert labels.tolist() == again.results[f"bases/{regime}/labels"][1, 0].tolist() and group.attrs["clusters"] == 2
    bases, control = bases_of(tau, labels), len(TASKS)
    floor = 0.8 * again.results["single_task/pretrained/control_validation_accuracy"][()]
    for t in T:
        cosines = [cosine(tau[t], b) for b in bases]
        nearest = int(np.argmax(cosines))
        assert group["nearest"][t] == nearest
        assert group["nearest_cosine"][t] == pytest.approx(cosines[nearest], abs=1e-5)
        for split, prefix in (("test", ""), ("validation", "validation_")):
            for a, alpha in enumerate(NEGATED):
                for what, where, rows in (("target", t, ""), ("control", control, "control_")):
                    index = f"{group.name}/{prefix}{rows}sample_index"
                    right, n = accuracy(again, regime, bases[nearest], -alpha, where, index, split)
                    assert group[f"{split}_{what}"][t, a] == pytest.approx(right, abs=1.01 / n)
        kept = np.flatnonzero(group["validation_control"][t] >= floor)
        best = kept[np.argmin(group["validation_target"][t][kept])]
        assert group["chosen_alpha"][t] == NEGATED[best] and group["target"][t] == group["test_target"][t, best]


@pytest.mark.parametrize("regime", REGIMES)
def test_bases_for_a_task_that_is_held_out(again: Oracle, regime: str) -> None:
    group = again.results[f"basis_transfer/{regime}"]
    tau = torch.stack([flat(again.tau(regime, t)) for t in T]).numpy()
    for t in T:
        labels = group["labels"][t]
        assert labels[t] == -1 and sorted(np.delete(labels, t)) == [0, 1]  # two tasks are two clusters
        bases = bases_of(np.delete(tau, t, 0), np.delete(labels, t))
        cosines = [cosine(tau[t], b) for b in bases]
        np.testing.assert_allclose(group["cosine"][t], cosines, atol=1e-5)
        nearest = int(np.argmax(cosines))
        assert group["nearest"][t] == nearest and group["found"][t] == (cosines[nearest] >= 0.05)
        for split, prefix in (("test", ""), ("validation", "validation_")):
            for c, basis in enumerate(bases):
                for a, alpha in enumerate(ADDED):
                    index = f"{group.name}/{prefix}sample_index"
                    right, n = accuracy(again, regime, basis, alpha, t, index, split)
                    assert group[f"{split}_accuracy"][t, c, a] == pytest.approx(right, abs=1.01 / n)
        best = group["validation_accuracy"][t].argmax(1)
        assert group["chosen_alpha"][t] == ADDED[best[nearest]]
        assert group["accuracy"][t] == group["test_accuracy"][t, nearest, best[nearest]]
        assert group["others"][t] == group["test_accuracy"][t, 1 - nearest, best[1 - nearest]]
        assert group["one_shot"][t] == group["test_accuracy"][t, nearest, 2]
        assert group["pretrained"][t] == group["test_accuracy"][t, 0, 0]  # α = 0


def test_a_second_start_is_fine_tuned_as_in_a_run_of_its_own(
    run: Path, other: Path, world: World, tmp_path: Path
) -> None:
    text = TEXT.split("[bases]")[0].replace('["standard", "linear"]', '["standard"]').replace('"model"', f'"{other}"')
    launch.measure(world.elsewhere(tmp_path / "alone.toml", text), tmp_path / "run")
    for task in TASKS:
        path = Path("standard") / task / "model.safetensors"
        mixed, alone = (load_file(f / path) for f in (run / "checkpoints/other_start", tmp_path / "run/checkpoints"))
        assert all(torch.equal(mixed[name], alone[name]) for name in alone)
    with h5py.File(tmp_path / "run/results.h5") as file, h5py.File(run / "results.h5") as both:
        for what, name in (("pretrained", "start_accuracy"), ("standard", "own_accuracy")):
            saved = both[f"mixed_starts/standard/{name}"][1]
            np.testing.assert_allclose(saved, file[f"single_task/{what}/accuracy"], atol=1.01 / 30)  # θ0 + τ is rounded


def test_vectors_of_two_starts(run: Path, again: Oracle, other: Path) -> None:
    group, first = again.results["mixed_starts/standard"], again.theta0
    assert list(again.results["mixed_starts"]) == ["standard"]  # a linear function belongs to one start
    second = load_file(other / "model.safetensors")
    theta = [torch.cat([start[name].double().flatten() for name in first]).numpy() for start in (first, second)]
    tuned = [[], []]
    for start, folder in enumerate((run / "checkpoints", run / "checkpoints/other_start")):
        for task in TASKS:
            held = load_file(folder / "standard" / task / "model.safetensors")
            tuned[start].append(torch.cat([held[name].double().flatten() for name in first]).numpy())
    vectors = [weights - theta[start] for start in (0, 1) for weights in tuned[start]]
    for i, a in enumerate(vectors):
        np.testing.assert_allclose(group["cosine"][i], [cosine(a, b) for b in vectors], atol=2e-5)
    np.testing.assert_allclose(group["norm"], [np.linalg.norm(vector) for vector in vectors], rtol=1e-5)
    across = [np.linalg.norm(weights - theta[1 - start]) for start in (0, 1) for weights in tuned[start]]
    np.testing.assert_allclose(group["across_norm"], across, rtol=1e-4)
    assert group["distance"][()] == pytest.approx(np.linalg.norm(theta[1] - theta[0]), rel=1e-5)
    own_validation = again.results["single_task/standard/validation_accuracy"][()]
    for start in (0, 1):
        ours = sum(weights - theta[start] for weights in tuned[start])
        theirs = sum(weights - theta[1 - start] for weights in tuned[1 - start])
        across_all = sum(weights - theta[start] for weights in tuned[1 - start])
        for kind, tau in enumerate((ours, (ours + theirs) / 2, theirs, across_all)):
            chosen = list(MIXED).index(group["coefficient"][start, kind])
            for a, alpha in enumerate(MIXED):
                shift = theta[start] + alpha * tau - theta[0]  # of models evaluated from the first θ0
                for t in T:
                    right, n = accuracy(
                        again, "standard", shift, 1.0, t, f"{group.name}/validation_sample_index", "validation"
                    )
                    assert group["validation_accuracy"][start, kind, a, t] == pytest.approx(right, abs=1.01 / n)
            right, n = accuracy(
                again,
                "standard",
                theta[start] + MIXED[chosen] * tau - theta[0],
                1.0,
                0,
                f"{group.name}/sample_index",
                "test",
            )
            assert group["accuracy"][start, kind, 0] == pytest.approx(right, abs=1.01 / n)
            if start == 0:
                shares = (group["validation_accuracy"][0, kind] / own_validation).mean(1)
                assert chosen == int(np.argmax(shares))
            shares = group["accuracy"][start, kind] / group["own_accuracy"][start]
            assert group["normalized"][start, kind] == pytest.approx(shares.mean())
    assert np.array_equal(group["validation_accuracy"][0, 0, 0], group["validation_accuracy"][0, 3, 0])  # α = 0
    assert group["validation_accuracy"][0, 0, 0].tolist() == group["validation_accuracy"][0, 2, 0].tolist()


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("architecture", ["bases.mixed.other", "narrow is a", "parameters", "{model}"]),
        ("same", ["bases.mixed.other", "has the weights of", "{model}"]),
        ("linear", ["bases.mixed.other", "standard", "finetune.regimes"]),
        ("frozen", ["bases.mixed.other", "finetune.first_stage"]),
        ("missing", ["nowhere"]),
    ],
)
def test_wrong_second_starts(
    experiment: Path, world: World, other: Path, tmp_path: Path, case: str, expected: list[str]
) -> None:
    config = world.model / "config.json"
    (tmp_path / "narrow").mkdir()
    text = config.read_text().replace('"hidden_size": 24', '"hidden_size": 12')
    (tmp_path / "narrow" / "config.json").write_text(text)
    setting = {
        "architecture": f"bases.mixed.other={tmp_path / 'narrow'}",
        "same": f"bases.mixed.other={world.model}",
        "linear": 'finetune.regimes=["linear"]',
        "frozen": "finetune.first_stage=1",
        "missing": "bases.mixed.other=nowhere",
    }[case]
    done = launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", "--set", setting)
    launch.complaint(done, *(word.format(model=world.model) for word in expected))


def test_a_second_start_in_parts(experiment: Path, other: Path, tmp_path: Path) -> None:
    """As the hub has large models; the run is stopped at once, when it has read its inputs."""
    folder = Path(shutil.copytree(other, tmp_path / "other"))
    in_parts(folder)
    done = launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", "--set", f"bases.mixed.other={folder}",
                      "--time-limit", "1e-6")
    assert done.returncode == 75, done.stderr
    assert f"{folder}/model.safetensors.index.json" in (tmp_path / "run" / "inputs.toml").read_text()


def test_all_alone_is_task_arithmetic(world: World, tmp_path: Path) -> None:
    """T clusters, added: the sum of all vectors; one cluster, averaged: a third of it. Of linear regimes, tangents
    that were computed once make these models' outputs, which recompute takes from the vectors."""
    text = TEXT.split("[bases.merge_in]")[0].replace(f"{ALPHA}", "[1.0, 3.0]")
    text += "clusters = [1, 2, 3]\n[addition]\nalpha = [1.0]\n"
    path = launch.measure(world.elsewhere(tmp_path / "bases.toml", text), tmp_path / "run")
    with h5py.File(path) as file:
        for regime in REGIMES:
            bases, sums = file[f"bases/{regime}"], file[f"addition/{regime}/validation_accuracy"]
            assert np.array_equal(bases["clusters"], [1, 2, 3])
            np.testing.assert_allclose(bases["validation_accuracy"][2, 0, 0], sums[0], atol=1.01 / 20)
            np.testing.assert_allclose(bases["validation_accuracy"][0, 0, 1], sums[0], atol=1.01 / 20)
    done = analysis_command.called("recompute", tmp_path / "run", "--points", "60", "--only", "bases")
    assert done.returncode == 0 and "\nbases: validation_accuracy " in done.stdout, done.stdout + done.stderr


def test_recompute_takes_bases_again(run: Path) -> None:
    quantities = {
        "bases": ("cosine", "eigenvalues", "labels", "coefficient", "accuracy", "validation_accuracy"),
        "basis_negation": ("nearest_cosine", "test_target", "test_control", "target"),
        "basis_transfer": ("cosine", "validation_accuracy", "test_accuracy", "accuracy"),
        "early_similarity": ("cosine", "norm", "eigenvalues", "rand_index", "labels", "every_labels"),
        "similarity": ("norm", "loss_gap", "sum_loss_gap", "cross_loss"),
        "mixed_starts": ("cosine", "across_norm", "distance", "accuracy", "own_accuracy", "normalized"),
        "low_rank": ("error", "encoder", "decoder", "accuracy", "coefficient"),
    }
    for group, every in quantities.items():
        done = analysis_command.called("recompute", run, "--points", "80", "--only", group)
        assert done.returncode == 0, done.stdout + done.stderr
        for what in every:
            assert f"\n{group}: {what} " in done.stdout
    done = analysis_command.called("recompute", run, "--points", "24", "--only", "low_rank_negation")
    assert done.returncode == 0 and "\nlow_rank_negation/pca-2: test_target " in done.stdout, done.stdout


def test_the_table(run: Path) -> None:
    done = analysis_command.called("tables", run, "--only", "bases")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" | ") >= 2 * 3 and f" of {RANDOM}" in done.stdout and "2 *" in done.stdout
    assert "merged by ties, bases by task_arithmetic" in " ".join(done.stdout.split())
    for only, expected in (("basis_negation", "Negation by bases"), ("basis_transfer", "Held-out tasks"),
                           ("early_similarity", "on the way of their training"), ("low_rank", "without clusters")):
        done = analysis_command.called("tables", run, "--only", only)
        assert done.returncode == 0 and expected in done.stdout, done.stdout + done.stderr
        assert sum(line.split()[0] in REGIMES for line in done.stdout.splitlines() if line.split()) >= 2
    done = analysis_command.called("tables", run, "--only", "mixed_starts")
    assert done.returncode == 0, done.stderr
    assert "from two pre-trained models" in done.stdout and "The second: second." in done.stdout
    assert sum(line.split()[:1] == ["standard"] for line in done.stdout.splitlines()) == 8
    with Run(run) as opened:
        drawn = bases_figures.similarity(opened)
    assert drawn is not None and len(drawn.axes[0].get_xticklabels()) == 2 * len(TASKS)


def test_the_papers_tables_and_figures(run: Path, tmp_path: Path) -> None:
    """TIES within the clusters, their sum: of table 10 there are the spectral partition, each task alone, and means."""
    done = analysis_command.called("tables", run, "--paper", "bases", "--only", "table10", "--format", "csv")
    assert done.returncode == 0, done.stderr
    lines = {row[0]: row for row in csv.reader(done.stdout.splitlines()) if row}
    column = lines["partition"].index("TIES, ours")
    with h5py.File(run / "results.h5") as file:
        absolute = file["bases/standard/absolute"][()]
    for name, expected in (("MSER", absolute[0, 0]), ("MS-ER", absolute[1, 0]), ("M-S-E-R", absolute[2, 0])):
        assert float(lines[name][column]) == pytest.approx(100 * expected), name
    assert lines["MR-ES"][column] == "" and float(lines["mean, k = 2"][column]) > 0
    done = analysis_command.called("tables", run, "--paper", "bases", "--only", "table6", "--format", "csv")
    assert done.returncode == 0, done.stderr
    lines = {row[0]: row for row in csv.reader(done.stdout.splitlines()) if row}
    with h5py.File(run / "results.h5") as file:
        left = file["basis_negation/standard/target"][()]
    assert float(lines["TIES"][lines["method"].index("MS target, ours")]) == pytest.approx(100 * np.nanmean(left))
    done = analysis_command.called("tables", run, "--paper", "bases", "--only", "table2", "--format", "csv")
    lines = {row[0]: row for row in csv.reader(done.stdout.splitlines()) if row}
    with h5py.File(run / "results.h5") as file:
        mixed = file["mixed_starts/standard/accuracy"][()].mean(2)
    for name, (first, second) in (("finetuned from 1", (0, 3)), ("half of each", (1, 1)), ("finetuned from 2", (3, 0))):
        for start, kind in enumerate((first, second)):
            place = lines["vectors"].index(f"pretrained {start + 1}, ours")
            assert float(lines[name][place]) == pytest.approx(100 * mixed[start, kind]), (name, start)
    done = analysis_command.called("figures", run, "--paper", "bases", "--out", tmp_path)
    drawn = {line.split(":")[0] for line in done.stdout.splitlines() if line.endswith(".png")}
    expected = {f"figure {n}" for n in (3, 4, 5, 7, 8, 9, 10, 11)}
    assert done.returncode == 0 and drawn == expected, done.stdout + done.stderr


@pytest.mark.parametrize(("setting", "expected"), [
    ("bases.clusters=[2, 4]", ["bases.clusters", "4", "1 to 3 clusters"]),
    ("bases.clusters=[3, 2]", ["bases.clusters", "ascend"]),
    ("bases.random=-1", ["bases.random", "-1"]),
    ('bases.merge_in={method="slerp"}', ["bases.merge_in.method", "slerp", "3"]),
    ("bases.merge_out.density=0.5", ["bases.merge_out.density"]),
    ("bases.merge_in.density=0", ["bases.merge_in.density", "above 0"]),
    ("bases.negation.clusters=4", ["bases.negation.clusters", "4", "3"]),
    ("bases.held_out.clusters=3", ["bases.held_out.clusters", "3", "2"]),
    ("bases.held_out.alpha=[0.5]", ["bases.held_out.alpha", "1"]),
    ('data.control=""', ["bases.negation", "data.control"]),
    ('model.label_words="frozen"', ["bases.mixed.other", "label_words"]),
    ("bases.low_rank.negation.control_threshold=2", ["bases.low_rank.negation.control_threshold", "2"]),
])
def test_wrong_settings(experiment: Path, tmp_path: Path, setting: str, expected: list[str]) -> None:
    launch.complaint(launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", "--set", setting), *expected)


@pytest.mark.parametrize("regime", REGIMES)
def test_vectors_on_the_way_of_training(run: Path, again: Oracle, regime: str) -> None:
    group = again.results[f"early_similarity/{regime}"]
    assert group.attrs["marks"].split(", ") == ["step1", "step3", "epoch1", "epoch2", "end"]
    # 60 points of each task in batches of 16.
    assert group["updates"][()].tolist() == [[n] * 3 for n in (1, 3, 4, 8, 12)]
    cosine, norm = group["cosine"][()], group["norm"][()]
    for place, mark in enumerate(["step1", "step3", "epoch1", "epoch2", ""]):
        folder = run / "checkpoints" / regime
        every = [load_file(folder / task / mark / "model.safetensors") for task in TASKS]
        tau = torch.stack([
            torch.cat([(model[name] - again.theta0[name]).flatten() for name in again.theta0]) for model in every
        ]).double()
        np.testing.assert_allclose(norm[place], tau.norm(dim=1), rtol=1e-5)
        np.testing.assert_allclose(cosine[place], cosines(tau), atol=2e-5)
    assert (np.diff(norm, axis=0) > 0).all()  # they grow
    assert np.array_equal(cosine[-1], again.results[f"bases/{regime}/cosine"][()])
    assert group["rand_index"][-1] == 1
    for labels, index in zip(group["labels"][()], group["rand_index"][()], strict=True):
        same = index == 1
        assert same == np.array_equal(labels, group["labels"][-1]) and (same or index < 0)  # of three tasks, two alike


def test_every_gap_and_partition(run: Path, again: Oracle) -> None:
    """The table has each gap of both Laplacians, and the Rand index of each k's partition over steps and regimes."""
    done = analysis_command.called("tables", run, "--only", "gaps", "--format", "csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(line for line in done.stdout.splitlines() if not line.startswith("#")))
    count = len(TASKS) - 1
    read = {regime: again.results[f"early_similarity/{regime}"] for regime in REGIMES}
    marks = read[REGIMES[0]].attrs["marks"].split(", ")
    assert [(row["regime"], row["after"], row["k"].split()[0]) for row in rows] == [
        (regime, mark, str(k + 1)) for regime in REGIMES for mark in marks for k in range(count)]
    for place, row in enumerate(rows):
        regime, mark, k = row["regime"], place // count % len(marks), place % count
        group = read[regime]
        for name, column in (("eigenvalues", "gap"), ("normalised_eigenvalues", "normalised gap")):
            assert float(row[column]) == pytest.approx(np.diff(group[name][mark])[k], abs=1e-12)
        assert row["k"].endswith("*") == (k + 1 == group["chosen_clusters"][mark])
        every, other = group["every_labels"][()], read[REGIMES[0]]["every_labels"][()]
        assert every[mark, k].max() == k and np.array_equal(every[mark, group["chosen_clusters"][mark] - 1],
                                                            group["labels"][mark])
        for column, labels, known in ((f"Rand index with {REGIMES[0]}", other[mark, k], regime != REGIMES[0]),
                                      ("Rand index with the end", every[-1, k], marks[mark] != "end")):
            assert (row[column] != "") == known
            if known:
                assert (float(row[column]) == 1) == np.array_equal(every[mark, k], labels)
    assert f"{REGIMES[0]} (k = " in done.stdout


def cosines(tau: torch.Tensor) -> torch.Tensor:
    unit = tau / tau.norm(dim=1, keepdim=True)
    return unit @ unit.T


def test_models_that_were_kept_are_whole_and_asked_for(world: World, tmp_path: Path) -> None:
    experiment = world.elsewhere(tmp_path / "kept.toml", TEXT.split("[bases]")[0])
    folder, settings = tmp_path / "run", ["--set", 'finetune.regimes=["standard"]']
    shutil.copy(launch.measure(experiment, folder, *settings), tmp_path / "before.h5")
    kept = folder / "checkpoints" / "standard" / "blobs" / "epoch1"
    assert CLIPVisionModelWithProjection.from_pretrained(kept).num_parameters() > 0
    before = (kept / "model.safetensors").read_bytes()
    (folder / "results.h5").unlink()
    (folder / "units" / "early_similarity__standard.safetensors").unlink()
    shutil.rmtree(kept)
    results = launch.measure(experiment, folder, *settings)  # trains blobs again
    assert differing(numbers(tmp_path / "before.h5"), numbers(results)) == []
    assert (kept / "model.safetensors").read_bytes() == before


def test_models_on_the_way_of_given_ones_are_trained_again(world: World, run: Path, tmp_path: Path) -> None:
    experiment = world.elsewhere(tmp_path / "given.toml", TEXT.split("[similarity]")[0])
    folder = tmp_path / "run"
    with_a_slash = ("--set", f"finetune.checkpoints={run / 'checkpoints'}/")  # as shells complete names
    launch.measure(experiment, folder, *launch.given_by(run), *with_a_slash, ranks=2)
    assert not list((folder / "units").glob("finetune__*"))
    with h5py.File(run / "results.h5") as trained, h5py.File(folder / "results.h5") as given:
        for regime in REGIMES:
            group = given[f"early_similarity/{regime}"]
            assert group.attrs["loss_difference"] == 0
            assert all(
                np.array_equal(group[name], trained[f"early_similarity/{regime}/{name}"], equal_nan=True)
                for name in group if name != "mark"
            )
            for mark in group.attrs["marks"].split(", ")[:-1]:
                path = Path(regime) / TASKS[1] / mark / "model.safetensors"
                again = (folder / "checkpoints" / "kept" / path).read_bytes()
                assert again == (run / "checkpoints" / path).read_bytes()
    done = analysis_command.called("recompute", folder, "--points", "40", "--only", "early_similarity")
    assert done.returncode == 0 and "\nearly_similarity: cosine " in done.stdout, done.stdout + done.stderr


def test_another_training_has_other_models_on_the_way(world: World, run: Path, tmp_path: Path) -> None:
    experiment = world.elsewhere(tmp_path / "given.toml", TEXT.split("[similarity]")[0])
    shutil.copytree(run / "checkpoints", (lone := tmp_path / "lone") / "checkpoints", symlinks=True)
    for giver, setting, expected in (
        (run, "finetune.learning_rate=0.05", "was trained otherwise than [finetune] says"),
        (run, "finetune.steps=13", "finetune.keep: needs standard's losses"),
        (lone, "finetune.steps=12", "which is not there"),
    ):
        given = launch.given_by(giver)
        done = launch.run(1, "run", experiment, "--run-dir", tmp_path / setting, *given, "--set", setting)
        launch.complaint(done, expected)


@pytest.mark.parametrize("regime", REGIMES)
def test_loss_gaps_of_the_sum(again: Oracle, regime: str) -> None:
    group = again.results[f"similarity/{regime}"]
    index = f"similarity/{regime}/sample_index"
    for t in T:
        _, single = again.accuracy_and_loss(regime, {t: 1.0}, t, index)
        for k, alpha in enumerate(SUMS):
            _, summed = again.accuracy_and_loss(regime, dict.fromkeys(T, alpha), t, index)
            assert group["sum_loss_gap"][t, k] == pytest.approx(summed - single, rel=1e-4, abs=2e-5)


@pytest.mark.parametrize("regime", REGIMES)
def test_losses_of_vectors_on_other_tasks(again: Oracle, regime: str) -> None:
    group, index = again.results[f"similarity/{regime}"], f"similarity/{regime}/sample_index"
    assert group["cross_alpha"][()].tolist() == CROSS and group["cross_loss"].shape == (3, 3, 2)
    for i in T:
        for j in T:
            for k, alpha in enumerate(CROSS):
                _, loss = again.accuracy_and_loss(regime, {i: alpha}, j, index)
                assert group["cross_loss"][i, j, k] == pytest.approx(loss, rel=1e-4, abs=2e-5)


def test_clusters_that_are_split_by_sign(world: World, run: Path, tmp_path: Path) -> None:
    """One cluster with vectors that point apart is two, beside which random partitions stand as beside any."""
    experiment = world.elsewhere(tmp_path / "split.toml", TEXT.split("[bases]")[0] + f"""
[bases]
random = {RANDOM}
alpha = {ALPHA}
split_below = 0.0
[bases.negation]
alpha = {NEGATED}
clusters = 1
""")
    results = launch.measure(experiment, tmp_path / "run", *launch.given_by(run))
    with h5py.File(results) as file:
        for regime in REGIMES:
            group = file[f"bases/{regime}"]
            cosine, labels = group["cosine"][()], group["labels"][()]
            assert cosine[1, 2] < 0 < min(cosine[0, 1], cosine[0, 2])
            beside = 1 if cosine[0, 1] > cosine[0, 2] else 2  # goes with the first task; the other does not
            expected = [0, int(beside == 2), int(beside == 1)]
            assert labels[0, 0].tolist() == expected
            assert [sorted(np.bincount(row).tolist()) for row in labels[0]] == [[1, 2]] * (1 + RANDOM)
            assert len({tuple(row) for row in labels[0].tolist()}) > 1
            assert np.isfinite(group["absolute"][0]).all()
            vector_bytes = group["bytes"][2, 0] // 3
            assert group["bytes"][0].tolist() == [2 * vector_bytes] * (1 + RANDOM)
            assert group["bytes"][2].tolist() == [3 * vector_bytes] + [0] * RANDOM
            assert file[f"basis_negation/{regime}/labels"][()].tolist() == expected
    done = analysis_command.called("tables", tmp_path / "run", "--only", "bases")
    assert done.returncode == 0 and done.stdout.count(f" of {RANDOM}") >= 2, done.stdout + done.stderr


@pytest.mark.parametrize("regime", REGIMES)
def test_bases_without_clusters(again: Oracle, regime: str) -> None:
    group = again.results[f"low_rank/{regime}"]
    assert group.attrs["methods"].split(", ") == ["autoencoder", "pca"]
    error, encoder, decoder = (group[name][()] for name in ("error", "encoder", "decoder"))
    tau = torch.stack([flat(again.tau(regime, t)) for t in T])
    gram, settings = tau @ tau.T, again.inputs.config["bases"]["low_rank"]
    for row, m in enumerate([1, 2]):
        b, w = low_rank_recompute.autoencoder(gram, m, settings, draws.seed_for(5, f"autoencoder/{m}"))
        np.testing.assert_allclose(encoder[0, row, :, :m], b, atol=1e-4)
        np.testing.assert_allclose(decoder[0, row, :m], w, atol=1e-4)
        np.testing.assert_allclose(encoder[0, row, :, :m].sum(0), 1)
        assert np.isnan(encoder[:, row, :, m:]).all() and np.isnan(decoder[:, row, m:]).all()
        centred = (tau - tau.mean(0)).numpy()
        values = np.linalg.svd(centred, compute_uv=False)
        np.testing.assert_allclose(error[1, row], (values[m:] ** 2).sum() / float(tau.square().sum()), atol=1e-6)
        basis = encoder[1, row, :, :m].T @ tau.numpy()  # principal components times their singular values
        np.testing.assert_allclose(np.linalg.norm(basis, axis=1), values[:m], rtol=1e-4)
    assert (error[0] >= error[1] - 1e-6).all()
    # Recovered from principal components, the sum is the sum of the vectors.
    assert group["accuracy"].shape == (2, 2, 2, 3)
    assert np.array_equal(group["accuracy"][1, 0, 1], group["accuracy"][1, 1, 1])


@pytest.mark.parametrize("regime", REGIMES)
def test_negation_by_vectors_that_are_made_again(again: Oracle, regime: str) -> None:
    names = ("autoencoder-1", "autoencoder-2", "pca-1", "pca-2")
    groups = {name: again.results[f"low_rank_negation/{name}/{regime}"] for name in names}
    tau = torch.stack([flat(again.tau(regime, t)) for t in T]).numpy()
    # Two principal components and the mean are all of three vectors: τ itself is subtracted.
    whole = groups["pca-2"]
    np.testing.assert_allclose(whole["cosine"], 1, atol=1e-6)
    for t in T:
        for a, alpha in enumerate(NEGATED):
            right, n = accuracy(again, regime, tau[t], -alpha, t, f"{whole.name}/sample_index", "test")
            assert whole["test_target"][t, a] == pytest.approx(right, abs=1.01 / n)
    u, s, v = np.linalg.svd(tau - tau.mean(0), full_matrices=False)
    rebuilt = tau.mean(0) + np.outer(u[:, 0] * s[0], v[0])
    np.testing.assert_allclose(groups["pca-1"]["cosine"], [cosine(rebuilt[t], tau[t]) for t in T], atol=1e-5)
    assert all((group["test_target"][:, 0] == whole["test_target"][:, 0]).all() for group in groups.values())  # α = 0


@pytest.mark.parametrize(("settings", "expected"), [
    (["finetune.keep=[3, 3]"], ["finetune.keep", "ascend"]),
    (["finetune.keep=[1, 13]"], ["finetune.keep", "13", "at most steps, 12"]),
    (["finetune.keep_epochs=[4]"], ["finetune.keep_epochs", "after 15 steps"]),
    (["bases.split_below=0.5"], ["bases.split_below", "-1 to 0"]),
    (["bases.low_rank.bases=[4]"], ["bases.low_rank.bases", "1 to 3"]),
    (['bases.low_rank.methods=["svd"]'], ["bases.low_rank.methods", "autoencoder, pca"]),
])
def test_wrong_settings_of_vectors(experiment: Path, tmp_path: Path, settings: list[str], expected: list[str]) -> None:
    arguments = [word for setting in settings for word in ("--set", setting)]
    launch.complaint(launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", *arguments), *expected)
