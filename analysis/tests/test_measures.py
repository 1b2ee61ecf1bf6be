# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Derived numbers against closed forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import synthetic

from taugrid_analysis import measures
from taugrid_analysis.records import Disentanglement, Similarity
from taugrid_analysis.results import Results

SUMS = {
    name: np.array([synthetic.norms(name)[list(pair)].sum() for pair in synthetic.PAIRS])
    for name in ("standard", "linear")
}


def grid_of(results: Results, name: str) -> Disentanglement:
    grid = results.disentanglement(name)
    assert grid is not None
    return grid


def vectors_of(results: Results, name: str) -> Similarity:
    record = results.similarity(name)
    assert record is not None
    return record


@pytest.mark.parametrize("regime", ["standard", "linear"])
@pytest.mark.parametrize("alpha", [1.0, 0.3, 2.75, 3.0])
def test_xi_at_a_point(run_folder: Path, regime: str, alpha: float) -> None:
    with Results(run_folder) as results:
        found = measures.at(grid_of(results, regime), alpha, alpha)
    np.testing.assert_allclose(found, synthetic.SLOPE * alpha * SUMS[regime], rtol=1e-12)


def test_xi_keeps_its_two_arguments_apart(run_folder: Path) -> None:
    with Results(run_folder) as results:
        found = measures.at(grid_of(results, "standard"), 0.5, 2.0)
    size = synthetic.norms("standard")
    expected = [synthetic.SLOPE * (0.5 * size[i] + 2.0 * size[j]) for i, j in synthetic.PAIRS]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_outside_the_grid_is_not_a_number(run_folder: Path) -> None:
    with Results(run_folder) as results:
        assert np.isnan(measures.at(grid_of(results, "standard"), 3.1, 0.0)).all()


def test_search_box(run_folder: Path) -> None:
    """The grid has 0, ½ and 1 in it: mean |α| is ½ for either task."""
    with Results(run_folder) as results:
        found = measures.box_mean(grid_of(results, "linear"), 0.0, 1.0)
    np.testing.assert_allclose(found, synthetic.SLOPE * 0.5 * SUMS["linear"], rtol=1e-12)


@pytest.mark.parametrize(
    "alpha", [np.linspace(-3, 3, 13), np.linspace(-3, 3, 20)], ids=["with 0", "without 0"]
)
def test_regimes_agree_at_matched_norm(tmp_path: Path, alpha: np.ndarray) -> None:
    """ξ is 2·slope·length in both regimes, though at equal α one is twice the other."""
    synthetic.write(tmp_path / "results.h5", alpha=alpha)
    with Results(tmp_path) as results:
        grids = {name: grid_of(results, name) for name in results.regimes}
        vectors = {name: vectors_of(results, name) for name in results.regimes}
        common = measures.matched_norm(grids, vectors, results.pairs)
        equal = [measures.at(grids[name], 1.0, 1.0) for name in ("standard", "linear")]
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
    with Results(tmp_path) as results:
        alpha, values = measures.diagonal(grid_of(results, "standard"))
    assert alpha[0] == 0 and len(alpha) == 11
    assert (values[:, 0] == 0).all()


def test_own_share(run_folder: Path) -> None:
    with Results(run_folder) as results:
        record = results.ntk("pretrained")
        assert record is not None
        share = measures.own_share(record.local_energy)
    assert np.isnan(np.diag(share)).all()
    np.testing.assert_allclose(share[~np.eye(8, dtype=bool)], 0.8, rtol=1e-9)


def test_seconds_by_rank(run_folder: Path) -> None:
    with Results(run_folder) as results:
        units = results.units()
    table = measures.seconds_by_rank(units)
    assert sorted(table) == [0, 1, 2, 3]
    total = sum(seconds for kinds in table.values() for seconds in kinds.values())
    assert total == pytest.approx(sum(unit.seconds for unit in units))
