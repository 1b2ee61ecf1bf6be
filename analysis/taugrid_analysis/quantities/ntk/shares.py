# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Shares of the local energy of the NTK's eigenfunctions, and what its spectrum says."""

from __future__ import annotations

import numpy as np
import xarray as xr

from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.means import mean, mean_of_finite, of_pairs, symmetric


def own_share(local_energy: Array) -> Floats:
    """[T,T]: the trained task's share of the local energy, mean over logits; NaN on the diagonal.

    What it would be without localisation is measured, not known: see `null`. K(t,t) holds the points' kernel
    with themselves and K(t,s) does not, so it exceeds ½ even where the control is more of the same task.
    """
    half = local_energy.shape[-1] // 2
    trained = local_energy[..., :half].astype(float).sum(axis=-1)
    control = local_energy[..., half:].astype(float).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        share = trained / (trained + control)
    result = mean_of_finite(share, -1)
    np.fill_diagonal(result, np.nan)
    return result


def null_share(kernel: xr.Dataset) -> tuple[Floats, Floats] | None:
    """The mean and deviation [T] over draws of the share with more of the same task as control.

    None where the file has no such draws. The deviation of a single draw is NaN.
    """
    if "null_share" not in kernel:
        return None
    shares = kernel["null_share"].transpose("task", "draw", "logit").to_numpy()
    draws = mean_of_finite(shares.astype(float), -1)
    single = draws.shape[1] < 2
    return draws.mean(axis=1), np.full(len(draws), np.nan) if single else draws.std(axis=1, ddof=1)


def ntk_separation(kernel: xr.Dataset, pairs: Array) -> Floats | None:
    """A pair's own share less its null, mean of both directions; 0: a control like the task itself."""
    null = null_share(kernel)
    if null is None:
        return None
    return of_pairs(symmetric(own_share(kernel["local_energy"].to_numpy()) - null[0][:, None]), pairs)


def effective_rank(eigenvalues: Array) -> tuple[Floats, Floats]:
    """exp of the entropy of λ/Σλ, and the largest one's part of Σλ: [T] each, mean over logits."""
    ranks, largest = [], []
    for task in eigenvalues.astype(float):
        spectra = []
        for spectrum in task:
            kept = np.clip(spectrum, 0.0, None)  # rounding leaves tiny negatives
            if not np.isfinite(spectrum).all() or not kept.sum() > 0:
                continue
            part = kept / kept.sum()
            positive = part[part > 0]
            spectra.append((np.exp(-(positive * np.log(positive)).sum()), part.max()))
        ranks.append(mean(rank for rank, _ in spectra))
        largest.append(mean(part for _, part in spectra))
    return np.array(ranks), np.array(largest)
