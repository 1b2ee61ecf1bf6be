# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of a grid of disentanglement errors.

A grid is the data set of /disentanglement/R or /representation/R: error [pair, alpha_1, alpha_2] and its
terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from taugrid_analysis.numbers import sampling
from taugrid_analysis.numbers.arrays import Array, Floats

NEAR_ORIGIN = 0.3
SLACK = 1e-9  # of a grid's range, within which a value counts as a grid point


def at(grid: xr.Dataset, alpha1: float, alpha2: float, variable: str = "error") -> Floats:
    """ξ(α1,α2) of every pair, or its two terms; bilinear between grid points, NaN outside the grid."""
    values = grid[variable].transpose(..., "alpha_1", "alpha_2").to_numpy().astype(float)
    for name, wanted in (("alpha_2", alpha2), ("alpha_1", alpha1)):  # the last axis, then the one before it
        values = _between(values, grid[name].to_numpy().astype(float), _snapped(grid, wanted))
    return np.asarray(values, dtype=float)


def _between(values: Floats, alpha: Floats, wanted: float) -> Floats:
    """`values` [..., A] at `wanted`, linear between its neighbours among the increasing `alpha` [A]."""
    if not alpha[0] <= wanted <= alpha[-1]:
        return np.full(values.shape[:-1], np.nan)
    after = int(np.searchsorted(alpha, wanted))
    if alpha[after] == wanted:
        return np.asarray(values[..., after])
    share = (wanted - alpha[after - 1]) / (alpha[after] - alpha[after - 1])
    return np.asarray((1 - share) * values[..., after - 1] + share * values[..., after])


def _snapped(grid: xr.Dataset, value: float) -> float:
    """The grid point where the value differs from one by rounding alone."""
    alpha = grid["alpha_1"].to_numpy().astype(float)
    nearest = float(alpha[np.abs(alpha - value).argmin()])
    return nearest if abs(nearest - value) <= SLACK * (alpha[-1] - alpha[0]) else value


def earlier_first(grid: xr.Dataset, pairs: Array) -> xr.Dataset:
    """The grid with each pair's earlier task first, so that α1 is that one's: a file lists either first."""
    turned = xr.DataArray(pairs[:, 0] > pairs[:, 1], dims="pair")
    if not turned.any():
        return grid
    other = grid.rename(alpha_1="alpha_2", alpha_2="alpha_1").isel(side=[1, 0])
    other = other.assign_coords(side=grid["side"])
    changed = {
        name: other[name].where(turned, values).transpose(*values.dims).assign_attrs(values.attrs)
        for name, values in grid.data_vars.items()
        if "pair" in values.dims
    }
    return grid.drop_vars("pair").assign({name: values.drop_vars("pair") for name, values in changed.items()})


def points(grid: xr.Dataset) -> Array | None:
    """Points of each task, where the group says which were sampled."""
    rows = grid.get("sample_index")
    return (rows.to_numpy() >= 0).sum(axis=1) if rows is not None else None


def is_share(grid: xr.Dataset) -> bool:
    """Whether ξ counts points on which two predictions differ, so that its error is binomial."""
    return metric(grid) == "disagreement"


def metric(grid: xr.Dataset, usual: str = "disagreement") -> str:
    return str(grid.attrs.get("metric", grid["error_by_task"].attrs.get("metric", usual)))


def errors(grid: xr.Dataset, pairs: Array) -> Floats | None:
    """Standard errors [P,2,A,A] of both terms everywhere; None where points are not counted."""
    counts = points(grid)
    if counts is None or not is_share(grid):
        return None
    terms = grid["error_by_task"].to_numpy().astype(float)
    return sampling.binomial(terms, np.broadcast_to(counts[pairs][:, :, None, None], terms.shape))


def at_errors(grid: xr.Dataset, alpha1: float, alpha2: float, pairs: Array) -> Floats:
    """Standard errors [P,2] of both terms at (α1,α2); NaN where points are not counted."""
    counts = points(grid)
    if counts is None or not is_share(grid):
        return np.full((len(pairs), 2), np.nan)
    return sampling.binomial(at(grid, alpha1, alpha2, "error_by_task"), counts[pairs])


def mean_errors(grid: xr.Dataset, pairs: Array) -> Floats | None:
    """Standard error [A,A] of the mean over pairs, at most: one task's terms are taken as fully correlated.

    All pairs of a task are measured on the same points of it. None where points are not counted. As of
    `earlier_first`.
    """
    ordered = np.sort(pairs, axis=1)
    terms = errors(earlier_first(grid, pairs), ordered)
    return _over_pairs(terms, ordered) if terms is not None and len(pairs) else None


def pairs_mean_error(terms: Floats, pairs: Array) -> float:
    """The same of one number a pair, from the standard errors [P,2] of its two terms."""
    return float(_over_pairs(terms, pairs)) if len(pairs) else float("nan")


def _over_pairs(terms: Floats, pairs: Array) -> Floats:
    """Over the pairs that have a number; NaN where none has."""
    known = np.asarray(np.isfinite(terms).all(axis=1))
    of_task = np.zeros((int(pairs.max()) + 1, *terms.shape[2:]))
    np.add.at(of_task, pairs, np.where(known[:, None], terms, 0.0))
    count = known.sum(axis=0)
    return np.asarray(np.where(count > 0, np.sqrt((of_task**2).sum(axis=0)) / np.maximum(count, 1), np.nan))


def box(grid: xr.Dataset, low: float = -np.inf, high: float = np.inf) -> tuple[Any, ...]:
    """Indices of the grid points with low ≤ α1, α2 ≤ high, for the last two axes."""
    alpha = grid["alpha_1"].to_numpy()
    inside = np.flatnonzero((alpha >= low - SLACK) & (alpha <= high + SLACK))
    return tuple(np.ix_(inside, inside))


def box_mean(grid: xr.Dataset, low: float = -np.inf, high: float = np.inf, variable: str = "error") -> Floats:
    """Mean over the grid points with low ≤ α1, α2 ≤ high, a number a pair; NaN if the box holds none."""
    chosen = grid[variable].to_numpy()[(..., *box(grid, low, high))]
    if not chosen.shape[-1]:
        return np.full(grid.sizes["pair"], np.nan)
    return np.asarray(chosen.mean(axis=(-2, -1)), dtype=float)


def diagonal(grid: xr.Dataset) -> tuple[Floats, Floats]:
    """α ≥ 0 and ξ(α,α) [P, …]. At α = 0 all models are θ0, so ξ is 0 there whether measured or not."""
    alpha = grid["alpha_1"].to_numpy().astype(float)
    values = np.einsum("paa->pa", grid["error"].to_numpy()).astype(float)
    positive = alpha >= -1e-12
    alpha, values = alpha[positive], values[:, positive]
    if alpha.size == 0 or alpha[0] > 1e-12:
        alpha = np.concatenate([[0.0], alpha])
        values = np.concatenate([np.zeros((len(values), 1)), values], axis=1)
    return alpha, values


@dataclass(frozen=True)
class MatchedNorm:
    """ξ(α,α) of every pair against the length travelled, on one axis for all regimes."""

    length: Floats  # [L], α·½(‖τ1‖+‖τ2‖)
    error: dict[str, Floats]  # regime: [P,L]


def pair_norm(similarity: xr.Dataset, pairs: Array) -> Floats:
    """½(‖τ1‖+‖τ2‖) of every pair."""
    return np.asarray(similarity["norm"].to_numpy()[pairs].mean(axis=1), dtype=float)


def matched_norm(
    grids: Mapping[str, xr.Dataset], similarities: Mapping[str, xr.Dataset], pairs: Array, count: int = 61
) -> MatchedNorm | None:
    """Linear interpolation of ξ along the diagonal, at equal length of the step instead of equal α.

    The axis ends where the first pair of any regime leaves its grid, so every pair counts everywhere
    and nothing is extrapolated.
    """
    usable = [name for name in grids if name in similarities]
    if not usable or not len(pairs):
        return None
    diagonals = {name: diagonal(grids[name]) for name in usable}
    norms = {name: pair_norm(similarities[name], pairs) for name in usable}
    end = min(float(diagonals[name][0][-1] * norms[name].min()) for name in usable)
    if not end > 0:
        return None
    length = np.linspace(0.0, end, count)
    error = {}
    for name in usable:
        alpha, values = diagonals[name]
        error[name] = np.stack(
            [np.interp(length, alpha * norm, row) for norm, row in zip(norms[name], values, strict=True)]
        )
    return MatchedNorm(length=length, error=error)
