# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers derived from grids, vectors and kernels; tables, figures and seeds all take them from here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from taugrid_analysis.records import (
    Array,
    Disentanglement,
    Floats,
    Similarity,
    Unit,
)

NEAR_ORIGIN = 0.3


def at(grid: Disentanglement, alpha1: float, alpha2: float) -> Floats:
    """ξ(α1,α2) of every pair, bilinear between grid points; NaN outside the grid."""
    low, weight = _bracket(grid.alpha, alpha1)
    low2, weight2 = _bracket(grid.alpha, alpha2)
    if low < 0 or low2 < 0:
        return np.full(len(grid.error), np.nan)
    error = grid.error.astype(float)
    first = (1 - weight2) * error[:, low, low2] + weight2 * error[:, low, low2 + 1]
    second = (1 - weight2) * error[:, low + 1, low2] + weight2 * error[:, low + 1, low2 + 1]
    return np.asarray((1 - weight) * first + weight * second)


def _bracket(alpha: Array, value: float) -> tuple[int, float]:
    """The grid interval that holds the value, and where in it; (-1, 0) outside."""
    slack = 1e-9 * (alpha[-1] - alpha[0])
    if not alpha[0] - slack <= value <= alpha[-1] + slack:
        return -1, 0.0
    low = int(np.clip(np.searchsorted(alpha, value, side="right") - 1, 0, len(alpha) - 2))
    weight = float((value - alpha[low]) / (alpha[low + 1] - alpha[low]))
    return low, min(max(weight, 0.0), 1.0)


def box_mean(grid: Disentanglement, low: float, high: float) -> Floats:
    """Mean over the grid points with low ≤ α1, α2 ≤ high, a number a pair; NaN if the box holds none."""
    inside = (grid.alpha >= low - 1e-9) & (grid.alpha <= high + 1e-9)
    if not inside.any():
        return np.full(len(grid.error), np.nan)
    return np.asarray(grid.error[:, inside][:, :, inside].mean(axis=(1, 2)), dtype=float)


def grid_mean(grid: Disentanglement) -> Floats:
    return np.asarray(grid.error.mean(axis=(1, 2)), dtype=float)


def diagonal(grid: Disentanglement) -> tuple[Floats, Floats]:
    """α ≥ 0 and ξ(α,α) [P, …]. At α = 0 all models are θ0, so ξ is 0 there whether measured or not."""
    positive = grid.alpha >= -1e-12
    alpha = grid.alpha[positive].astype(float)
    values = np.einsum("paa->pa", grid.error)[:, positive].astype(float)
    if alpha.size == 0 or alpha[0] > 1e-12:
        alpha = np.concatenate([[0.0], alpha])
        values = np.concatenate([np.zeros((len(values), 1)), values], axis=1)
    return alpha, values


@dataclass(frozen=True)
class MatchedNorm:
    """ξ(α,α) of every pair against the length travelled, on one axis for all regimes."""

    length: Floats  # [L], α·½(‖τ1‖+‖τ2‖)
    error: dict[str, Floats]  # regime: [P,L]


def pair_norm(similarity: Similarity, pairs: Array) -> Floats:
    """½(‖τ1‖+‖τ2‖) of every pair."""
    return np.asarray(similarity.norm[pairs].mean(axis=1), dtype=float)


def matched_norm(
    grids: dict[str, Disentanglement], similarities: dict[str, Similarity], pairs: Array, points: int = 121
) -> MatchedNorm | None:
    """Linear interpolation of ξ along the diagonal, at equal length of the step instead of equal α.

    The axis ends where the first pair of any regime leaves its grid, so every pair counts everywhere
    and nothing is extrapolated.
    """
    usable = [name for name in grids if name in similarities]
    if not usable:
        return None
    diagonals = {name: diagonal(grids[name]) for name in usable}
    norms = {name: pair_norm(similarities[name], pairs) for name in usable}
    end = min(float(diagonals[name][0][-1] * norms[name].min()) for name in usable)
    if not end > 0:
        return None
    length = np.linspace(0.0, end, points)
    error = {}
    for name in usable:
        alpha, values = diagonals[name]
        error[name] = np.stack(
            [np.interp(length, alpha * norm, row) for norm, row in zip(norms[name], values, strict=True)]
        )
    return MatchedNorm(length=length, error=error)


def own_share(local_energy: Array) -> Floats:
    """[T,T]: the trained task's share of the local energy, mean over logits; 0.5 is no localisation."""
    half = local_energy.shape[-1] // 2
    own = local_energy[..., :half].astype(float).sum(axis=-1)
    control = local_energy[..., half:].astype(float).sum(axis=-1)
    share = own / (own + control)
    count = np.isfinite(share).sum(axis=-1)
    total = np.where(np.isfinite(share), share, 0.0).sum(axis=-1)
    result = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    np.fill_diagonal(result, np.nan)
    return np.asarray(result)


def ntk_overlap(local_energy: Array, pairs: Array) -> Floats:
    """Of every pair: one minus the own share, mean of both directions; ½ is no localisation."""
    other = 1.0 - own_share(local_energy)
    return of_pairs(symmetric(other), pairs)


def effective_rank(eigenvalues: Array) -> tuple[Floats, Floats]:
    """exp of the entropy of λ/Σλ, and the largest one's part of Σλ: [T] each, mean over logits."""
    ranks, largest = [], []
    for task in eigenvalues.astype(float):
        found = []
        for spectrum in task:
            kept = np.clip(spectrum, 0.0, None)  # rounding leaves tiny negatives
            if not np.isfinite(spectrum).all() or not kept.sum() > 0:
                continue
            part = kept / kept.sum()
            positive = part[part > 0]
            found.append((np.exp(-(positive * np.log(positive)).sum()), part.max()))
        ranks.append(mean(rank for rank, _ in found))
        largest.append(mean(part for _, part in found))
    return np.array(ranks), np.array(largest)


def symmetric(matrix: Array) -> Floats:
    """½(M + Mᵀ): of ‖J(x_b)τ_a‖² it is τJp (paper 3, equation 9)."""
    values = matrix.astype(float)
    return np.asarray((values + values.T) / 2)


def of_pairs(matrix: Array, pairs: Array) -> Floats:
    return np.asarray(matrix[pairs[:, 0], pairs[:, 1]], dtype=float)


def interference_bound(lambda_max: Array, similarity: Similarity, pairs: Array) -> Floats:
    """λ_max·C·(1+ε) of every pair (paper 2): C ≥ ‖τ‖², ε ≥ |cos|, λ_max the larger of the two tasks'."""
    smooth = np.abs(lambda_max[pairs].astype(float)).max(axis=1)
    size = (similarity.norm[pairs].astype(float) ** 2).max(axis=1)
    return np.asarray(smooth * size * (1 + np.abs(of_pairs(similarity.cosine, pairs))))


def off_diagonal(matrix: Array) -> Floats:
    return np.asarray(matrix[np.triu_indices(len(matrix), 1)], dtype=float)


def seconds_by_rank(units: list[Unit]) -> dict[int, dict[str, float]]:
    """rank: kind: seconds, kinds in the order in which they first appear."""
    result: dict[int, dict[str, float]] = {rank: {} for rank in sorted({unit.rank for unit in units})}
    for unit in units:
        kinds = result[unit.rank]
        kinds[unit.kind] = kinds.get(unit.kind, 0.0) + unit.seconds
    return result


def mean(values: Iterable[float]) -> float:
    """Over what is finite; NaN where nothing is."""
    array = np.asarray(list(values), dtype=float)
    array = array[np.isfinite(array)]
    return float(array.mean()) if array.size else float("nan")
