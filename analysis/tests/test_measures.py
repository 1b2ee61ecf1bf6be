# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Derived numbers against closed forms."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
import synthetic_points
import xarray as xr

from taugrid_analysis.quantities.disentanglement import xi
from taugrid_analysis.quantities.ntk import shares
from taugrid_analysis.run.opened import Run

SUMS = {
    name: np.array([synthetic.norms(name)[list(pair)].sum() for pair in synthetic.PAIRS])
    for name in ("standard", "linear")
}


def grid_of(run: Run, name: str) -> xr.Dataset:
    grid = run.data("disentanglement", name)
    assert grid is not None
    return grid


def vectors_of(run: Run, name: str) -> xr.Dataset:
    data = run.data("similarity", name)
    assert data is not None
    return data


@pytest.mark.parametrize("regime", ["standard", "linear"])
@pytest.mark.parametrize("alpha", [1.0, 0.3, 2.75, 3.0])
def test_xi_at_a_point(run_folder: Path, regime: str, alpha: float) -> None:
    with Run(run_folder) as run:
        xi_of_pairs = xi.at(grid_of(run, regime), alpha, alpha)
    np.testing.assert_allclose(xi_of_pairs, synthetic.SLOPE * alpha * SUMS[regime], rtol=1e-12)


def test_xi_keeps_its_two_arguments_apart(run_folder: Path) -> None:
    with Run(run_folder) as run:
        xi_of_pairs = xi.at(grid_of(run, "standard"), 0.5, 2.0)
    size = synthetic.norms("standard")
    expected = [synthetic.SLOPE * (0.5 * size[i] + 2.0 * size[j]) for i, j in synthetic.PAIRS]
    np.testing.assert_allclose(xi_of_pairs, expected, rtol=1e-12)


def test_outside_the_grid_is_not_a_number(run_folder: Path) -> None:
    with Run(run_folder) as run:
        assert np.isnan(xi.at(grid_of(run, "standard"), 3.1, 0.0)).all()


def test_search_box(run_folder: Path) -> None:
    """The grid has 0, ½ and 1 in it: mean |α| is ½ for either task."""
    with Run(run_folder) as run:
        box_means = xi.box_mean(grid_of(run, "linear"), 0.0, 1.0)
    np.testing.assert_allclose(box_means, synthetic.SLOPE * 0.5 * SUMS["linear"], rtol=1e-12)


@pytest.mark.parametrize(
    "alpha", [np.linspace(-3, 3, 13), np.linspace(-3, 3, 20)], ids=["with 0", "without 0"]
)
def test_regimes_agree_at_matched_norm(tmp_path: Path, alpha: np.ndarray) -> None:
    """ξ is 2·slope·length in both regimes, though at equal α one is twice the other."""
    synthetic.write(tmp_path / "results.h5", alpha=alpha)
    with Run(tmp_path) as run:
        grids = {name: grid_of(run, name) for name in run.regimes}
        vectors = {name: vectors_of(run, name) for name in run.regimes}
        common = xi.matched_norm(grids, vectors, run.results.pairs)
        equal = [xi.at(grids[name], 1.0, 1.0) for name in ("standard", "linear")]
    assert common is not None
    np.testing.assert_allclose(equal[0], 2 * equal[1], rtol=1e-12)
    shortest = SUMS["linear"].min() / 2
    assert common.length[-1] == pytest.approx(3 * shortest)
    for error in common.error.values():
        np.testing.assert_allclose(
            error, np.broadcast_to(2 * synthetic.SLOPE * common.length, error.shape), atol=1e-12
        )


def test_diagonal_starts_at_zero(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "results.h5", alpha=np.linspace(-3, 3, 20))
    with Run(tmp_path) as run:
        alpha, values = xi.diagonal(grid_of(run, "standard"))
    assert alpha[0] == 0 and len(alpha) == 11
    assert (values[:, 0] == 0).all()


def test_own_share(run_folder: Path) -> None:
    with Run(run_folder) as run:
        data = run.data("ntk", "pretrained")
        assert data is not None
        share = shares.own_share(data["local_energy"].to_numpy())
    assert np.isnan(np.diag(share)).all()
    np.testing.assert_allclose(share[~np.eye(8, dtype=bool)], 0.8, rtol=1e-9)


def test_share_beside_its_null(schema2_folder: Path) -> None:
    """Shares of 0.8 against draws of 0.70, 0.71, 0.72, 0.73; the last task has a logit less."""
    draws = synthetic_points.NULL_SHARE + synthetic_points.NULL_SPREAD * np.arange(synthetic_points.DRAWS)
    with Run(schema2_folder) as run:
        data = run.data("ntk", "pretrained")
        assert data is not None
        null = shares.null_share(data)
        separation = shares.ntk_separation(data, run.results.pairs)
    assert null is not None
    np.testing.assert_allclose(null[0], draws.mean(), rtol=1e-12)
    np.testing.assert_allclose(null[1], draws.std(ddof=1), rtol=1e-12)
    np.testing.assert_allclose(separation, 0.8 - draws.mean(), rtol=1e-9)


def test_without_a_null_there_is_nothing_to_compare_with(run_folder: Path) -> None:
    with Run(run_folder) as run:
        data = run.data("ntk", "pretrained")
        assert data is not None and shares.null_share(data) is None
        assert shares.ntk_separation(data, run.results.pairs) is None
        assert run.pairs["ntk"].isna().all()


def test_half_a_share_is_no_null() -> None:
    """The kernel of points with themselves lifts the share of a task's own points, whatever the control.

    Control points are drawn as the trained task's are, so nothing is localised; the share is 0.9, not ½.
    """
    rng = np.random.default_rng(0)
    features = rng.normal(size=(64, 48))  # of 32 points and 32 more of the same task
    gram = features[:32] @ features.T
    _, sigma, right = np.linalg.svd(gram, full_matrices=False)
    energy = (right[sigma > 1e-6 * sigma[0]] ** 2).sum(0)
    share = shares.own_share(np.stack([[energy, energy]] * 2)[:, :, None, :])[0, 1]
    assert share > 0.55


def test_errors_of_a_grid(run_folder: Path) -> None:
    """Cell by cell from the file: binomial of each term, tasks' terms added up, then over the pairs."""
    with Run(run_folder) as run, h5py.File(run_folder / "results.h5") as file:
        terms = file["disentanglement/standard/error_by_task"][()]
        errors = xi.mean_errors(grid_of(run, "standard"), run.results.pairs)
        row, frame = run.summary.loc["standard"], run.pairs.loc["standard"]
    p = np.clip(terms, 1 / 258, 1 - 1 / 258)
    each = np.sqrt(p * (1 - p) / 256)
    of_task = [
        sum(each[k, side] for k, pair in enumerate(synthetic.PAIRS) for side in (0, 1) if pair[side] == t)
        for t in range(8)
    ]
    expected = np.sqrt(np.square(of_task).sum(axis=0)) / 28
    np.testing.assert_allclose(errors, expected)
    assert row["xi_grid_error"] == pytest.approx(expected.mean())
    assert row["xi_box_error"] == pytest.approx(expected[6:9, 6:9].mean())
    cells = np.hypot(each[:, 0], each[:, 1])
    np.testing.assert_allclose(frame["xi_box_error"], cells[:, 6:9, 6:9].mean(axis=(1, 2)))
    np.testing.assert_allclose(frame["xi_one_error"], cells[:, 8, 8])


def test_error_of_a_mean_over_pairs_is_at_most(run_folder: Path) -> None:
    """Three tasks by hand: each is in two of the three pairs, with errors that add up."""
    pairs = np.array([[0, 1], [0, 2], [1, 2]])
    terms = np.array([[0.1, 0.2], [0.3, 0.1], [0.1, 0.4]])
    of_task = np.array([0.1 + 0.3, 0.2 + 0.1, 0.1 + 0.4])
    error = xi.pairs_mean_error(terms, pairs)
    assert error == pytest.approx(np.sqrt((of_task**2).sum()) / 3)
    independent = np.sqrt((terms**2).sum()) / 3
    assert independent < error
