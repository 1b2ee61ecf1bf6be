# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Every measured number again, from the run folder alone."""

from itertools import product
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from launch import measure
from taugrid_analysis.quantities.linearity import recompute as linearity_recompute
from taugrid_analysis.recompute.oracle import Oracle, flat
from world import EXPERIMENT, PAIRS, REGIMES, TASKS, T, World

LAMBDA = 0.4  # of sums and negations by layer


@pytest.mark.parametrize("regime", ["pretrained", *REGIMES])
def test_accuracy_and_loss_of_single_tasks(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"single_task/{regime}"]
    for t in T:
        edits = {} if regime == "pretrained" else {t: 1.0}
        accuracy, loss = oracle.accuracy_and_loss(regime, edits, t, f"{group.name}/sample_index")
        assert group["accuracy"][t] == pytest.approx(accuracy, abs=1e-12)
        assert group["loss"][t] == pytest.approx(loss, rel=1e-4)
        index = f"{group.name}/validation_sample_index"
        accuracy, _ = oracle.accuracy_and_loss(regime, edits, t, index, "validation")
        assert group["validation_accuracy"][t] == pytest.approx(accuracy, abs=1e-12)


@pytest.mark.parametrize("regime", REGIMES)
def test_training_helps(oracle: Oracle, regime: str) -> None:
    before, after = (oracle.results[f"single_task/{r}/accuracy"][()] for r in ("pretrained", regime))
    assert (after > before + 0.3).all()
    loss = oracle.results[f"training/{regime}/loss"][()]
    assert (loss[:, -5:].mean(1) < 0.5 * loss[:, :5].mean(1)).all()


@pytest.mark.parametrize("regime", REGIMES)
def test_similarity_of_task_vectors(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"similarity/{regime}"]
    tau = torch.stack([flat(oracle.tau(regime, t)) for t in T])
    norm = tau.norm(dim=1)
    np.testing.assert_allclose(group["norm"], norm, rtol=1e-5)
    np.testing.assert_allclose(group["norm_ratio"], norm / flat(oracle.theta0).norm(), rtol=1e-5)
    np.testing.assert_allclose(group["cosine"], (tau @ tau.T) / norm.outer(norm), atol=1e-5)
    kept = []
    for vector in tau.numpy().astype(np.float32):  # as TIES trims, by sorting
        least = np.sort(np.abs(vector))[::-1][int(group.attrs["density"] * vector.size)]
        kept.append(np.where(np.abs(vector) >= least, np.sign(vector), 0))
    np.testing.assert_allclose(group["mask_density"], [np.mean(trimmed != 0) for trimmed in kept], rtol=1e-12)
    for a, b in product(T, T):
        both, either = (kept[a] != 0) & (kept[b] != 0), (kept[a] != 0) | (kept[b] != 0)
        assert group["mask_overlap"][a, b] == pytest.approx(both.sum() / either.sum(), rel=1e-12)
        assert group["sign_conflict"][a, b] == pytest.approx((kept[a] * kept[b] < 0).sum() / both.sum(), rel=1e-12)
        signs = tau[a].sign() * tau[b].sign()
        expected = float((signs < 0).sum() / (signs != 0).sum())
        assert group["sign_conflict_all"][a, b] == pytest.approx(expected, rel=1e-6)
    alpha = group.attrs["alpha"]
    for p, pair in enumerate(PAIRS):
        for side, t in enumerate(pair):
            index = f"{group.name}/sample_index"
            _, merged = oracle.accuracy_and_loss(regime, dict.fromkeys(pair, alpha), t, index)
            _, single = oracle.accuracy_and_loss(regime, {t: 1.0}, t, index)
            assert group["loss_gap"][p, side] == pytest.approx(merged - single, rel=1e-4, abs=2e-5)


@pytest.mark.parametrize("regime", REGIMES)
def test_disentanglement_grid(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"disentanglement/{regime}"]
    alpha = group["alpha"][()]
    ours = group["error_by_task"][()]
    expected = np.zeros_like(ours)
    for p, pair in enumerate(PAIRS):
        for side, t in enumerate(pair):
            x, _ = oracle.points(f"{group.name}/sample_index", t)
            alone = {a: oracle.logits(t, oracle.through(regime, oracle.step(regime, {t: a}), x, t)).argmax(1)
                     for a in alpha}
            for r, first in enumerate(alpha):
                for c, second in enumerate(alpha):
                    z = oracle.through(regime, oracle.step(regime, {pair[0]: first, pair[1]: second}), x, t)
                    other = oracle.logits(t, z).argmax(1) != alone[(first, second)[side]]
                    expected[p, side, r, c] = other.double().mean()
    points = group["sample_index"].shape[1]
    assert np.abs(ours - expected).max() <= 1.01 / points  # one picture on the border of two classes, ...
    assert (np.abs(ours - expected) > 1e-12).mean() <= 0.02  # ... and that rarely
    np.testing.assert_allclose(group["error"], ours.sum(1), atol=1e-15)
    assert ours.max() > 0.3 and group.attrs["metric"] == "disagreement"


@pytest.mark.parametrize("regime", REGIMES)
def test_largest_eigenvalue_against_arpack(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"smoothness/{regime}"]
    assert (group["residual"][()] <= group.attrs["tolerance"]).all()
    assert (group["hvp_count"][()] >= 2).all()
    for t in T:
        # An eigenvalue lies within ‖Hv − λv‖ of λ: the residual bounds the error, float32's rounding aside.
        expected = oracle.largest_eigenvalue(regime, t)
        assert group["lambda_max"][t] == pytest.approx(expected, rel=group["residual"][t] + 2e-5)


def test_lanczos_starts_near_the_gradient(world: World, run_folder: Path, tmp_path: Path) -> None:
    """After one product λ is the start's own quotient: of a random start in so many dimensions next to none of λ_max,
    of the gradient a good part, and the same whole, in chunks, and where two ranks share the points."""
    text = EXPERIMENT.split("[finetune]")[0] + f'''[finetune]
given = ["standard", "linear"]
regimes = ["standard", "linear"]
checkpoints = "{run_folder}/checkpoints"

[smoothness]
points = 24
max_products = 1
'''
    experiment = world.elsewhere(tmp_path / "one.toml", text)
    lambdas = {}
    for name, ranks, more in (("whole", 1, ()), ("chunks", 1, ("--set", "smoothness.chunk=7")),
                              ("ranks", 2, ("--set", "run.ranks_per_unit=2")),
                              ("parts", 2, ("--set", "run.ranks_per_unit=2", "--set", "smoothness.chunk=5")),
                              ("power", 1, ("--set", 'smoothness.method="power"'))):
        with h5py.File(measure(experiment, tmp_path / name, *more, ranks=ranks)) as file:
            lambdas[name] = {regime: file[f"smoothness/{regime}/lambda_max"][()] for regime in ("standard", "linear")}
    with h5py.File(run_folder / "results.h5") as file:
        largest = file["smoothness/standard/lambda_max"][()]
    assert (lambdas["whole"]["standard"] / largest > 0.05).all(), lambdas
    assert (np.abs(lambdas["power"]["standard"] / largest) < 0.01).all(), lambdas
    for name in ("chunks", "ranks", "parts"):
        for regime, values in lambdas["whole"].items():
            np.testing.assert_allclose(lambdas[name][regime], values, rtol=1e-3, err_msg=f"{name}, {regime}")
    np.testing.assert_allclose(lambdas["power"]["linear"], lambdas["whole"]["linear"], rtol=1e-5)


def test_tangent_kernel_and_local_energy(oracle: Oracle) -> None:
    group = oracle.results["ntk/pretrained"]
    gram, energy = group["gram"][()], group["local_energy"][()]
    for t in T:
        expected = oracle.kernel(t, f"{group.name}/sample_index").numpy()
        logits = min(len(expected), gram.shape[1])
        error = np.linalg.norm(gram[t, :logits] - expected[:logits]) / np.linalg.norm(expected[:logits])
        assert error < 1e-5
        np.testing.assert_allclose(gram[t, :logits], expected[:logits], rtol=1e-4, atol=1e-5 * np.abs(expected).max())
        assert np.isnan(gram[t, logits:]).all() and np.isnan(energy[t, :, logits:]).all()
        for s in T:
            if s == t:
                assert np.isnan(energy[t, s]).all() and not group["rank"][t, s].any()
                continue
            for c in range(logits):
                expected, rank = energy_and_rank(gram[t, c, :, t], gram[t, c, :, s])
                np.testing.assert_allclose(energy[t, s, c], expected, atol=1e-8)
                assert group["rank"][t, s, c] == rank
            assert not group["rank"][t, s, logits:].any()
    assert group.attrs["cut_off"] == 1e-6


def energy_and_rank(target: np.ndarray, control: np.ndarray) -> tuple[np.ndarray, int]:
    """Paper 1, section 6.1: Σ φ² over the right singular vectors of [K(t,t), K(t,s)]."""
    _, sigma, right = np.linalg.svd(np.concatenate([target, control], axis=1).astype(np.float64), full_matrices=False)
    kept = right[sigma > 1e-6 * sigma[0]]
    return (kept**2).sum(0), len(kept)


def test_null_of_local_energy(oracle: Oracle) -> None:
    """More of the same task as control: disjoint rows, the kernel's own entries, and the energy of both halves."""
    group = oracle.results["ntk/pretrained"]
    gram, null_gram, share = (group[name][()] for name in ("gram", "null_gram", "null_share"))
    energy, n = group["null_energy"][()], gram.shape[2]
    for t in T:
        rows, further = group["sample_index"][t], group["null_sample_index"][t]
        assert len({*rows, *further.flatten()}) == n * (1 + len(further)) == n * 5
        points, others = (oracle.sample("train", t, [int(i) for i in each])[0] for each in (rows, further.flatten()))
        logits = min(gram.shape[1], oracle.heads[t].classes)
        for c in range(logits):
            first, second = (
                torch.stack([oracle.gradient_of_logit(oracle.theta0, t, c, x[None], list(oracle.theta0)) for x in each])
                for each in (points, others))
            expected = (first @ second.T).numpy().reshape(n, -1, n)
            np.testing.assert_allclose(null_gram[t, c], expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
            for d in range(len(further)):
                local_energy, _ = energy_and_rank(gram[t, c, :, t], null_gram[t, c, :, d])
                np.testing.assert_allclose(energy[t, c, d], local_energy, atol=1e-8)
                assert share[t, c, d] == pytest.approx(local_energy[:n].sum() / local_energy.sum(), abs=1e-8)
        for stored in (share, energy, null_gram):
            assert np.isfinite(stored[t, :logits]).all() and np.isnan(stored[t, logits:]).all()
    known = share[np.isfinite(share).all(axis=2)]
    assert known.std(axis=1).min() > 0
    assert known.mean(axis=1).min() > 0.5  # K(t,t) holds the points' kernel with themselves


def test_a_task_with_one_draw_or_none(world: World, tmp_path: Path) -> None:
    for draws in (0, 1):
        done = measure(world.experiment, tmp_path / str(draws), "--set", 'finetune.regimes=["standard"]',
                       "--set", f"ntk.null_draws={draws}", "--set", f"ntk.points={60 // (draws + 1)}",
                       "--set", "ntk.logits=1")
        with h5py.File(done) as file:
            group = file["ntk/pretrained"]
            assert np.isfinite(group["local_energy"][0, 1]).all()
            assert ("null_share" in group) == (draws == 1)
            if draws:
                assert sorted([*group["sample_index"][0], *group["null_sample_index"][0, 0]]) == list(range(60))
                assert group["null_share"].shape == (len(TASKS), 1, 1)


def test_the_kernel_by_chunks_is_the_same(world: World, oracle: Oracle, tmp_path: Path) -> None:
    done = measure(world.experiment, tmp_path / "run", "--set", 'finetune.regimes=["standard"]', "--set", "ntk.chunk=5")
    with h5py.File(done) as file:
        for name in ("gram", "local_energy", "null_gram", "null_energy"):
            ours = oracle.results[f"ntk/pretrained/{name}"][()]
            np.testing.assert_allclose(file[f"ntk/pretrained/{name}"][()], ours, rtol=1e-4,
                                       atol=1e-5 * np.nanmax(np.abs(ours)))


def test_tau_jp(oracle: Oracle) -> None:
    group = oracle.results["tau_jp/linear"]
    assert group.attrs["space"] == "encoder output"
    for a in T:
        for b in T:
            x, _ = oracle.points(f"{group.name}/sample_index", b)
            product = oracle.tangent(oracle.tau("linear", a), x, b)[1]
            assert group["value"][a, b] == pytest.approx(float(product.square().sum(1).mean()), rel=1e-4)


@pytest.mark.parametrize("regime", REGIMES)
def test_task_addition(oracle: Oracle, regime: str) -> None:
    group, single = oracle.results[f"addition/{regime}"], oracle.results[f"single_task/{regime}"]
    alpha = group["alpha"][()]
    for split, index in (("test", "sample_index"), ("validation", "validation_sample_index")):
        rows = f"{group.name}/{index}"
        expected = np.array([[oracle.accuracy_and_loss(regime, dict.fromkeys(T, a), t, rows, split)[0] for t in T]
                             for a in alpha])
        wrong = np.abs(group[f"{split}_accuracy"] - expected)
        assert wrong.max() <= 1.01 / 20 and (wrong > 1e-12).mean() <= 0.02

    validation, test = group["validation_accuracy"][()], group["test_accuracy"][()]
    best = int(np.argmax((validation / single["validation_accuracy"][()]).mean(1)))
    one_shot = int(np.flatnonzero(alpha == 1.0)[0])
    assert group["chosen_alpha"][()] == alpha[best]
    for row, prefix in ((best, ""), (one_shot, "one_shot_")):
        assert group[f"{prefix}absolute"][()] == pytest.approx(test[row].mean())
        assert group[f"{prefix}normalized"][()] == pytest.approx((test[row] / single["accuracy"][()]).mean())


@pytest.fixture(scope="module")
def layered(oracle: Oracle) -> dict[tuple[str, str, int, int], list[dict[str, np.ndarray]]]:
    """Every quantity of every point again, by group, regime, pair or task, and coefficient: a dictionary a layer."""
    alpha = oracle.results["linearity/standard/alpha"][()]
    kinds = [("linearity", linearity_recompute.of_pair, len(PAIRS), alpha)]
    kinds += [("layer_addition", linearity_recompute.of_sum, len(PAIRS), [LAMBDA])]
    kinds += [("layer_negation", linearity_recompute.of_negation, len(TASKS), [LAMBDA])]
    return {(group, regime, first, k): of_one(oracle, regime, first, float(value))
            for group, of_one, count, values in kinds
            for regime in REGIMES for first in range(count) for k, value in enumerate(values)}


@pytest.mark.parametrize("kind", ["linearity", "layer_addition", "layer_negation"])
@pytest.mark.parametrize("regime", REGIMES)
def test_linearity_by_layer_from_whole_features(oracle: Oracle, layered: dict, regime: str, kind: str) -> None:
    group = oracle.results[f"{kind}/{regime}"]
    edges = {True: group.attrs["cosine_edges"], False: group.attrs["coefficient_edges"]}
    assert list(group["layer"]) == [0, 1, 2, 3] and group.attrs["last_layer"] == 3
    if kind != "linearity":
        assert list(group["lambda"]) == [LAMBDA]
    names = [name.removesuffix("_histogram") for name in group if name.endswith("_histogram")]
    assert len(names) == (10 if kind == "layer_negation" else 14)
    sides = 1 if kind == "layer_negation" else 2
    for name in names:
        ours = group[name][()]
        count, _, weights = ours.shape[:3]
        again = linearity_recompute.summary
        expected = np.array([[[again(layered[kind, regime, p, a][layer][name]) for a in range(weights)]
                              for layer in range(4)] for p in range(count)])
        assert np.isfinite(expected).all(), name
        # Single precision: of a difference of two models less is left than of what they share.
        far = "centred" in name or "error" in name
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=3e-4 if far else 1e-6, err_msg=name)
        counts = group[f"{name}_histogram"][()]
        assert (counts.sum(3) == sides * 24).all()
        for place in np.ndindex(*counts.shape[:3]):
            values = layered[kind, regime, place[0], place[2]][place[1]][name]
            inner = edges[name.endswith(("cosine", "baseline"))][1:-1]
            again = np.bincount(np.searchsorted(inner, values, side="right"), minlength=len(inner) + 1)
            near = np.abs(values[:, None] - inner).min(axis=1) < (3e-4 if far else 1e-6)
            assert np.abs(counts[place] - again).sum() <= 2 * near.sum(), (name, place)


@pytest.mark.parametrize("regime", REGIMES)
def test_averages_by_layer_from_whole_features(oracle: Oracle, regime: str) -> None:
    """Each task has one model here: all of them, on each task's points."""
    group = oracle.results[f"layer_averages/{regime}"]
    assert list(group["data"]) == list(T) and (group["sets"][()] == 1).all() and list(group["layer"]) == [0, 1, 2, 3]
    names = [name.removesuffix("_histogram") for name in group if name.endswith("_histogram")]
    assert len(names) == 14
    for d in T:
        again = linearity_recompute.of_average(oracle, regime, d)
        for name in names:
            expected = np.array([linearity_recompute.summary(again[layer][name]) for layer in range(4)])
            far = "centred" in name or "error" in name
            np.testing.assert_allclose(group[name][d], expected, rtol=1e-4, atol=3e-4 if far else 1e-6, err_msg=name)
            assert (group[f"{name}_histogram"][d].sum(1) == 24).all()
    error = group["error"][..., 0]
    assert (error.max() < 1e-4) if regime == "linear" else (error[:, 1:].min() > 0.003)


def test_a_linearised_model_is_linear_at_every_layer(oracle: Oracle) -> None:
    """Up to rounding, before rows are normalised; and the baseline says that the two models do differ."""
    exact, curved = (oracle.results[f"linearity/{regime}"] for regime in ("linear", "standard"))
    for token in ("", "class_"):
        for name in ("cosine", "coefficient", "centred_cosine", "centred_coefficient"):
            np.testing.assert_allclose(exact[f"{token}{name}"][..., [0, 2, 3, 4]], 1, atol=1e-5)
        assert exact[f"{token}error"][..., 0].max() < 1e-4
        assert exact[f"{token}centred_baseline"][..., 0].max() < 0.95
        assert curved[f"{token}error"][:, 1:, :, 0].min() > 0.003
    assert curved["error"][:, 0].max() < 1  # the embedding is followed by a norm
    for kind in ("layer_addition", "layer_negation"):
        exact, curved = (oracle.results[f"{kind}/{regime}/error"] for regime in ("linear", "standard"))
        assert exact[..., 0].max() < 1e-4 and curved[:, 1:, :, 0].min() > 0.003


@pytest.mark.parametrize("regime", REGIMES)
def test_passes_of_linearity_are_counted(oracle: Oracle, regime: str) -> None:
    """T² + 2PA passes of fine-tuned and mixed models over a task's points."""
    group = oracle.results[f"linearity/{regime}"]
    passes, alphas = group["passes"][()], len(group["alpha"])
    assert passes.sum() == len(TASKS) ** 2 + 2 * len(PAIRS) * alphas
    edited = oracle.results[f"layer_negation/{regime}/passes"][()]  # of one λ: 2λτ, sums, and ±λτ
    assert edited.sum() == len(TASKS) ** 2 + 2 * len(PAIRS) + 2 * len(TASKS)


def test_some_layers_and_points_of_linearity(world: World, oracle: Oracle, tmp_path: Path) -> None:
    few = ("linearity.layers=[1, 3]", "linearity.lambda=[]", "linearity.points=8", "linearity.alpha=[0.5]",
           'linearity.regimes=["standard"]')
    path = measure(world.experiment, tmp_path / "run", *(word for each in few for word in ("--set", each)))
    with h5py.File(path) as file:
        group, whole = file["linearity/standard"], oracle.results["linearity/standard"]
        assert group["cosine"].shape == (3, 2, 1, 5) and list(group["layer"]) == [1, 3]
        assert (group["sample_index"][()] == whole["sample_index"][:, :8]).all()
        assert "linear" not in file["linearity"] and "layer_addition" not in file and "layer_negation" not in file
        np.testing.assert_allclose(group["cosine"][..., 0], whole["cosine"][:, [1, 3]][:, :, [1], 0], atol=0.02)
