# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Averages, ensembles and stitched models again, in plain PyTorch: hooks put mixed features into θ0."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from launch import measure
from taugrid_analysis.quantities.averages import recompute as averages_recompute
from taugrid_analysis.quantities.barrier import recompute as barrier_recompute
from taugrid_analysis.quantities.stitching import recompute as stitching_recompute
from taugrid_analysis.recompute.oracle import Oracle
from world import PAIRS, REGIMES, TASKS, T, World


def close(actual: np.ndarray, expected: np.ndarray, points: int) -> None:
    """But for a picture on the border of two classes, and that rarely."""
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    wrong = np.abs(actual - expected)[np.isfinite(expected)]
    assert wrong.max() <= 1.01 / points and (wrong > 1e-12).mean() <= 0.03


@pytest.mark.parametrize("regime", REGIMES)
def test_averages_of_weights_logits_and_features(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"averages/{regime}"]
    sets = [tuple(np.flatnonzero(row)) for row in group["sets"]]
    assert sets == [*PAIRS, tuple(T)]
    points = group["sample_index"].shape[1]
    for kind in averages_recompute.AVERAGES:
        expected = np.full((len(sets), len(TASKS)), np.nan)
        for s, members in enumerate(sets):
            for t in members:
                right = averages_recompute.average(oracle, kind, regime, list(members), t, f"{group.name}/sample_index")
                expected[s, t] = right.mean()
                bits = np.unpackbits(oracle.results[f"correct{group.name}/{kind}"][s, t])[:points]
                assert bits.mean() == pytest.approx(group[kind][s, t], abs=1e-15)
        close(group[kind][()], expected, points)
    if regime == "linear":  # the output is linear in the weights
        np.testing.assert_allclose(group["weights"], group["features"], atol=1.01 / points)


@pytest.mark.parametrize("regime", REGIMES)
def test_the_gap_of_theorem_4_3(oracle: Oracle, regime: str) -> None:
    """How far the sum of task vectors is from what each does alone, θ0 among the models."""
    group = oracle.results[f"averages/{regime}"]
    expected = np.full(group["gap"].shape, np.nan)
    for s, row in enumerate(group["sets"]):
        members = [int(k) for k in np.flatnonzero(row)]
        for t in members:
            expected[s, t] = averages_recompute.gap(oracle, regime, members, t, f"{group.name}/sample_index")
    np.testing.assert_allclose(group["gap"], expected, rtol=1e-3, atol=1e-5)
    assert (np.nanmax(expected) < 1e-4) if regime == "linear" else (np.nanmin(expected) > 1e-3)


def test_few_sets_are_drawn_and_keep_their_order(world: World, oracle: Oracle, tmp_path: Path) -> None:
    path = measure(world.experiment, tmp_path / "run", "--set", "averages.sets=2", "--set",
                   'finetune.regimes=["standard"]')
    with h5py.File(path) as file:
        few, whole = (group["averages/standard"] for group in (file, oracle.results))
        kept = [next(s for s, other in enumerate(whole["sets"]) if (row == other).all()) for row in few["sets"]]
        assert len(kept) == 3 and kept == sorted(kept) and kept[-1] == len(PAIRS)  # two pairs, and all tasks
        np.testing.assert_array_equal(few["weights"], whole["weights"][kept])


@pytest.mark.parametrize("regime", REGIMES)
def test_stitched_models(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"stitching/{regime}"]
    coefficients, blocks = group["lambda"][()], group["block"][()]
    assert list(coefficients) == [0.4, 1.0] and list(blocks) == [1, 2]
    index, points = f"{group.name}/sample_index", group["sample_index"].shape[1]
    shape = (len(coefficients), len(blocks))
    pair, single = np.full((len(PAIRS), 2, *shape), np.nan), np.full((len(TASKS), len(TASKS), *shape), np.nan)
    negated, edited = np.full((2, len(TASKS), *shape), np.nan)
    for a, x in enumerate(coefficients):
        for b, block in enumerate(blocks):
            def of(edits: list, t: int, block: int = int(block)) -> float:
                return stitching_recompute.stitch(oracle, regime, edits, t, block, index).mean()

            for p, both in enumerate(PAIRS):
                for side, t in enumerate(both):
                    pair[p, side, a, b] = of([(0.5, {k: x}) for k in both], t)
            for t in T:
                for k in T:
                    single[k, t, a, b] = of([(1.0, {k: x})], t)
                negated[t, a, b] = of([(2.0, {}), (-1.0, {t: x})], t)
                edited[t, a, b] = of([(1.0, {t: -x})], t)
    for name, expected in {"pair": pair, "single": single, "negated": negated, "edited": edited}.items():
        close(group[name][()], expected, points)


def test_more_of_the_edit_serves_its_own_task(oracle: Oracle) -> None:
    """The last block and λ = 1 serve the task better than the first and 0.4, although norm and projection are θ0's."""
    group = oracle.results["stitching/standard"]
    own_task = np.array([group["single"][t, t] for t in T])  # [T, λ, block]
    assert (own_task[:, 1, 1] > own_task[:, 0, 0]).all() and np.isfinite(group["pair"]).all()


def test_the_control_has_every_pair(world: World, papers_folder: Path) -> None:
    oracle = Oracle(papers_folder)
    group = oracle.results["stitching/attention_posthoc"]
    assert group["pair_control"].shape == (len(PAIRS), 2, 2) and group["single_control"].shape == (len(TASKS), 2, 2)
    index, points = f"{group.name}/control_sample_index", len(group["control_sample_index"])
    for name, edits in {"pair_control": [(0.5, {0: 1.0}), (0.5, {1: 1.0})], "single_control": [(1.0, {0: 1.0})],
                        "negated_control": [(2.0, {}), (-1.0, {0: 1.0})], "edited_control": [(1.0, {0: -1.0})]}.items():
        again = stitching_recompute.stitch(oracle, "attention_posthoc", edits, len(TASKS), 2, index).mean()
        assert group[name][0, 1, 1] == pytest.approx(again, abs=1.01 / points)


@pytest.mark.parametrize("regime", REGIMES)
def test_the_loss_barrier_and_its_curvature(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"barrier/{regime}"]
    alpha = group["alpha"][()]
    for p, (i, j) in enumerate(PAIRS):
        ends = [barrier_recompute.loss(oracle, regime, p, {t: 1.0}) for t in (i, j)]
        np.testing.assert_allclose(group["loss"][p], ends, rtol=1e-4)
        for a, weight in enumerate(alpha):
            middle = barrier_recompute.loss(oracle, regime, p, {i: weight, j: 1 - weight})
            expected = weight * ends[0] + (1 - weight) * ends[1] - middle
            assert group["delta"][p, a] == pytest.approx(expected, abs=3e-5 * sum(ends))
        for name, place in (("curvature", 0.0), ("middle_curvature", 0.5)):
            assert group[name][p] == pytest.approx(barrier_recompute.curvature(oracle, regime, p, place), rel=1e-3)
        assert group["distance"][p] > 0


def test_curvature_in_the_middle_explains_the_barrier(oracle: Oracle) -> None:
    """δ(½) is ⅛ vᵀHv to second order, and to third where H is the middle's."""
    group = oracle.results["barrier/linear"]
    half = list(group["alpha"]).index(0.5)
    expected = group["middle_curvature"][()] / 8
    assert np.abs(group["delta"][:, half] / expected - 1).max() < 0.7  # long steps
