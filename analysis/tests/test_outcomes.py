# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of edited models and of pairs, by hand or by another route."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
import synthetic_edits
from scipy import stats

from taugrid_analysis import measures, outcomes, predictors
from taugrid_analysis.records import Choice, Similarity
from taugrid_analysis.results import Results


def test_tolerant_share_by_hand() -> None:
    """Rises from 0.50 to 0.60 and falls again, a unit of α each: within 0.01 is a tenth on either side."""
    alpha, accuracy = np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.6, 0.5])
    assert outcomes.tolerant_share(alpha, accuracy) == pytest.approx(0.2 / 2)
    assert outcomes.tolerant_share(alpha[::-1], accuracy) == pytest.approx(0.2 / 2)
    assert outcomes.tolerant_share(alpha, np.full(3, 0.4)) == 1.0
    assert outcomes.tolerant_share(alpha, np.array([0.6, 0.595, 0.2])) == pytest.approx(
        (1 + 0.005 / 0.395) / 2
    )


def test_tolerant_share_against_a_fine_grid(run_folder: Path) -> None:
    with Results(run_folder) as results:
        record = results.addition("standard")
    assert record is not None
    curve = record.test_accuracy.mean(axis=1)
    fine = np.interp(np.linspace(0, 1, 200001), record.alpha, curve)
    expected = (fine >= curve.max() - 0.01).mean()
    assert outcomes.tolerant_share(record.alpha, curve) == pytest.approx(expected, abs=1e-4)


def test_effective_rank_by_hand() -> None:
    """Four equal eigenvalues count as four, one alone as one; a logit of NaN does not count."""
    spectra = np.array([[[2.0, 2, 2, 2], [5, 0, 0, 0]], [[3, 1, 0, 0], [np.nan] * 4]])
    ranks, largest = measures.effective_rank(spectra)
    two = np.exp(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    np.testing.assert_allclose(ranks, [(4 + 1) / 2, two])
    np.testing.assert_allclose(largest, [(0.25 + 1) / 2, 0.75])
    assert ranks[1] == pytest.approx(np.exp(stats.entropy([3, 1])))


def test_symmetric_product_of_pairs(run_folder: Path) -> None:
    with Results(run_folder) as results:
        record = results.tau_jp("linear")
        assert record is not None
        found = measures.of_pairs(measures.symmetric(record.value), results.pairs)
    np.testing.assert_allclose(found, synthetic_edits.between("linear", 8))


def test_bound_by_hand() -> None:
    vectors = Similarity(
        cosine=np.array([[1, -0.5], [-0.5, 1]]),
        norm=np.array([2.0, 3.0]),
        norm_ratio=np.zeros(2),
        loss_gap=None,
    )
    found = measures.interference_bound(np.array([-10.0, 4.0]), vectors, np.array([[0, 1]]))
    assert found == pytest.approx([10 * 9 * 1.5])


def test_overlap_by_hand() -> None:
    """Own shares 0.9 and 0.6 of a pair: what the others hold is 0.1 and 0.4, on average 0.25."""
    energy = np.zeros((2, 2, 1, 4))
    energy[0, 1, 0] = [0.9, 0.9, 0.1, 0.1]
    energy[1, 0, 0] = [0.6, 0.6, 0.4, 0.4]
    energy[0, 0, 0] = energy[1, 1, 0] = 0.5
    assert measures.ntk_overlap(energy, np.array([[0, 1]])) == pytest.approx([0.25])


def test_forgetting_leaves_out_what_was_not_kept() -> None:
    choice = Choice(np.array([0.5, np.nan, 1.0]), np.array([0.2, np.nan, 0.4]), np.array([0.6, np.nan, 0.5]))
    found = outcomes.forgetting(choice)
    assert (found.alpha, found.target, found.control, found.kept) == pytest.approx((0.75, 0.3, 0.55, 2))
    none = outcomes.forgetting(Choice(*np.full((3, 3), np.nan)))
    assert none.kept == 0 and np.isnan([none.target, none.control]).all()


def test_one_shot_forgetting(run_folder: Path) -> None:
    with Results(run_folder) as results:
        record = results.negation("standard")
        assert record is not None
        found = outcomes.one_shot_forgetting(record, results.single_task("pretrained"))
    control = synthetic_edits.CONTROL * (1 - 0.05 * (1 + np.arange(8) / 4))
    assert found.target == pytest.approx(np.mean(synthetic.ZERO_SHOT) * np.exp(-1))
    assert found.control == pytest.approx(control.mean())
    assert found.kept == (control >= 0.95 * synthetic_edits.CONTROL).sum()


def test_a_coefficient_that_was_not_measured_is_not_a_number() -> None:
    assert np.isnan(outcomes.at_alpha(np.array([0.0, 0.5]), np.ones((3, 2)), 1.0)).all()


def test_sum_by_task(run_folder: Path) -> None:
    with Results(run_folder) as results:
        record, single = results.addition("linear"), results.single_task("linear")
        assert record is not None and single is not None
        assert outcomes.added_by_task(record).mean() == pytest.approx(record.absolute)
        by_task = outcomes.normalized_by_task(record, single)
    place = int(np.flatnonzero(record.alpha == record.chosen_alpha)[0])
    np.testing.assert_array_equal(by_task, record.test_accuracy[place] / single.accuracy)


def test_joint_training(run_folder: Path) -> None:
    with Results(run_folder) as results:
        record = results.multitask("multitask_linear")
        assert record is not None
        found = outcomes.joint(results, "multitask_linear", record)
    base = np.array(synthetic.ZERO_SHOT)
    assert found["absolute"] == pytest.approx(base.mean() + 0.15)
    assert found["normalized"] == pytest.approx(((base + 0.15) / (base + synthetic.GAIN["linear"])).mean())


def test_worst_pair_of_the_further_steps(run_folder: Path) -> None:
    with Results(run_folder) as results:
        record = results.continuation("tau_jp_continue")
        assert record is not None
        worst = outcomes.worst_pair(record, results.pairs)
        trace = outcomes.pair_trace(record, results.pairs)
    assert synthetic.PAIRS[worst] == (6, 7)
    fall = np.exp(-synthetic_edits.STEPS / 30)
    np.testing.assert_allclose(trace[:, worst], synthetic_edits.between("linear", 8).max() * fall)


def test_predictors_against_numpy_and_scipy(tmp_path: Path) -> None:
    """Each number of a pair worked out from the file alone, then correlated by SciPy."""
    synthetic.write(tmp_path / "results.h5", regimes=("standard", "posthoc", "linear"), bend=True)
    rng = np.random.default_rng(3)
    with h5py.File(tmp_path / "results.h5", "r+") as file:
        file["ntk/pretrained/local_energy"][...] = rng.random(file["ntk/pretrained/local_energy"].shape)
        file["pair_addition/linear/normalized"][...] = 0.8 + 0.2 * rng.random(28)
    with h5py.File(tmp_path / "results.h5") as file:
        value = file["tau_jp/linear/value"][()]
        cosine, norm = file["similarity/linear/cosine"][()], file["similarity/linear/norm"][()]
        error, curvature = file["disentanglement/linear/error"][()], file["smoothness/linear/lambda_max"][()]
        energy = file["ntk/pretrained/local_energy"][()]
        normalized = file["pair_addition/linear/normalized"][()]
    expected: dict[str, list[float]] = {name: [] for name in predictors.TITLES}
    for pair, (i, j) in enumerate(synthetic.PAIRS):
        expected["tau_jp"].append((value[i, j] + value[j, i]) / 2)
        expected["cosine"].append(cosine[i, j])
        expected["xi_one"].append(error[pair, 8, 8])  # α = −3, −2.5, … 1
        expected["xi_box"].append(error[pair, 6:9, 6:9].mean())
        size = max(norm[i], norm[j]) ** 2
        expected["bound"].append(max(curvature[i], curvature[j]) * size * (1 + abs(cosine[i, j])))
        half = energy.shape[-1] // 2
        shares = [energy[a, b, :, half:].sum(-1) / energy[a, b].sum(-1) for a, b in ((i, j), (j, i))]
        expected["ntk"].append(np.mean([share.mean() for share in shares]))
    with Results(tmp_path) as results:
        found = predictors.predictors(results, "linear")
        lines = [line for line in predictors.lines(results) if line.regime == "linear"]
    assert [line.predictor for line in lines[:6]] == list(predictors.TITLES)
    for line in lines[:6]:
        x = np.array(expected[line.predictor])
        np.testing.assert_allclose(found[line.predictor], x, rtol=1e-9)
        assert line.outcome == "tuned" and line.pairs == 28
        assert line.pearson.value == pytest.approx(stats.pearsonr(x, normalized).statistic)
        assert line.spearman.value == pytest.approx(stats.spearmanr(x, normalized).statistic)


def test_twins_share_task_vectors_not_grids(tmp_path: Path) -> None:
    synthetic.write(
        tmp_path / "results.h5",
        regimes=("standard", "posthoc"),
        tasks=synthetic.FEW_TASKS,
        leave_out=["similarity/posthoc", "disentanglement/posthoc"],
    )
    with Results(tmp_path) as results:
        standard, posthoc = (predictors.predictors(results, name) for name in ("standard", "posthoc"))
    np.testing.assert_array_equal(standard["tau_jp"], posthoc["tau_jp"])
    np.testing.assert_array_equal(standard["cosine"], posthoc["cosine"])
    assert "xi_one" in standard and "xi_one" not in posthoc
