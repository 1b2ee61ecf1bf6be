# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merging methods from their formulas, in NumPy on whole vectors: selection by sorting, sums in double.

WHOLE and BY_TENSOR name the methods that can be taken again. A method's formula and its line there are all
that the analysis needs of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from taugrid_analysis.numbers.arrays import Array

Tensors = dict[str, Array]
Settings = dict[str, Any]  # the keys of a method's section


def flat(tensors: Tensors) -> Array:
    return np.concatenate([tensors[name].ravel() for name in sorted(tensors)])


def parts(vector: Array, like: Tensors) -> list[slice]:
    """Where each tensor lies."""
    ends = np.cumsum([0] + [like[name].size for name in sorted(like)])
    return [slice(a, b) for a, b in pairwise(ends)]


def trimmed(tau: Array, density: float, cut: str) -> Array:
    """Zero but for the largest magnitudes."""
    n, share = tau.size, int(density * tau.size)
    order = np.sort(np.abs(tau))[::-1]
    if cut == "at_least":  # ties-merging: threshold = the (n - share)-th smallest
        return np.where(np.abs(tau) >= order[min(share, n - 1)], tau, 0)
    if cut == "above":  # Localize-and-Stitch: strictly more than the share-th
        return np.where(np.abs(tau) > order[max(share, 1) - 1], tau, 0)
    kept = np.zeros_like(tau)
    largest = np.argsort(-np.abs(tau), kind="stable")[: max(share, 1)]
    kept[largest] = tau[largest]
    return kept


def crumbs(tau: Array, density: float, gamma: float) -> Array:
    """The largest magnitudes but for the outliers, a share gamma of all, which are above them."""
    if density >= 1:
        return tau
    flat, share = tau.ravel(), int(density * tau.size)
    outliers = min(int(gamma * tau.size), tau.size - share)
    stay = np.argsort(-np.abs(flat), kind="stable")[outliers : outliers + share]
    kept = np.zeros_like(flat)
    kept[stay] = flat[stay]
    return kept.reshape(tau.shape)


def elected(x: Array, weight: Array, merge: str, zero_sign: str) -> Array:
    """TIES's election and disjoint merge of x [T,n], to which the weights have not come yet."""
    y = x * weight[:, None]
    sign = np.sign(y.sum(0))
    if zero_sign == "majority":  # of all places; where that is 0 as well, the reference keeps negatives
        sign[sign == 0] = 1 if np.sign(sign.sum()) > 0 else -1
    elif zero_sign == "positive":
        sign[sign == 0] = 1
    agree = (np.sign(y) == sign) & (y != 0)
    total = np.where(agree, y, 0).sum(0)
    if merge == "sum":
        return total
    weights = np.where(agree, weight[:, None], 0).sum(0)
    return np.divide(total, weights, out=np.zeros_like(total), where=weights != 0)


def ties(
    tau: Array,
    weight: Array,
    density: float,
    cut: str = "at_least",
    merge: str = "mean",
    zero_sign: str = "majority",
) -> Array:
    return elected(np.stack([trimmed(t, density, cut) for t in tau]), weight, merge, zero_sign)


def claimed(tau: Array, merged: Array, tall_lambda: float | Array) -> Array:
    """TALL masks [T,n] of tau [T,n]; one λ, or one a task."""
    return np.asarray(np.abs(tau) > np.reshape(tall_lambda, (-1, 1)) * np.abs(merged - tau))


def consensus(tau: Array, merged: Array, tall_lambda: float | Array, least: int) -> Array:
    claims = claimed(tau, merged, tall_lambda).sum(0)
    return np.where(claims >= least, merged, 0)


def slerp(a: Array, b: Array, t: float, linear_above: float = 0.9995) -> Array:
    norms = np.linalg.norm(a) * np.linalg.norm(b)
    cosine = a @ b / norms if norms > 0 else 0.0  # as mergekit and FusionBench have it
    if abs(cosine) > linear_above:
        return (1 - t) * a + t * b
    angle = np.arccos(cosine)
    return (np.sin((1 - t) * angle) * a + np.sin(t * angle) * b) / np.sin(angle)


def model_stock(tau: list[Array]) -> Array:
    """t · mean of τ, t = N c / (1 + (N − 1) c), c the mean cosine of the pairs; 0 where they cancel."""
    cosines = []
    for a, b in combinations(tau, 2):
        norms = np.linalg.norm(a) * np.linalg.norm(b)
        cosines.append(a.ravel() @ b.ravel() / norms if norms > 0 else 0.0)
    cosine, count = np.mean(cosines), len(tau)
    denominator = 1 + (count - 1) * cosine
    return np.asarray((count * cosine / denominator if denominator >= 1e-6 else 0.0) * np.mean(tau, 0))


def sce(deltas: list[Array], share: float, least_energy: float) -> Array:
    """Selects where the deltas differ most, weights each by its squares there, and erases the lesser sign."""
    tau = np.stack([delta.ravel() for delta in deltas])
    if share < 1:
        spread = tau.astype(np.float32).astype(np.float64).var(0)
        stay = np.argsort(-spread, kind="stable")[: int(share * np.count_nonzero(spread))]
        tau = tau * np.isin(np.arange(tau.shape[1]), stay)
    energy = (tau**2).sum(1)
    alike = energy.sum() == 0 or energy.sum() / tau.shape[1] < least_energy
    weight = np.full(len(tau), 1 / len(tau)) if alike else energy / energy.sum()
    counts = (np.sign(tau) == np.where(tau.sum(0) >= 0, 1, -1)) * weight[:, None]
    return np.asarray((tau * counts).sum(0) / np.maximum(counts.sum(0), 1e-6)).reshape(deltas[0].shape)


def magmax(tau: Array) -> Array:
    """The largest number at each place, the last of equal ones."""
    last = len(tau) - 1 - np.abs(tau[::-1]).argmax(0)
    return np.asarray(np.take_along_axis(tau, last[None], 0)[0])


def emr(tau: Array) -> Array:
    """The sign that is elected at each place, with the largest number that has it."""
    sign = np.sign(tau.sum(0))
    return np.asarray(sign * np.where(np.sign(tau) == sign, np.abs(tau), 0).max(0))


def ram(tau: Array, epsilon: float, r: float = 0.0, alpha: float = 0.0) -> Array:
    """The mean of the vectors that changed a place; what one alone changed, by how many places it shares."""
    counts = np.abs(tau) > np.float32(epsilon)
    several = counts.sum(0) > 1
    shared, alone = (counts & several).sum(1), (counts & ~several).sum(1)
    ratio = np.where(shared == 0, 0, np.minimum(shared / np.maximum(alone, 1e-5), alpha))
    weight = np.where(several, 1 / np.maximum(counts.sum(0), 1), 1 + r * ratio[:, None])
    return np.asarray((tau * counts * weight).sum(0))


def _unit(x: Array) -> Array:
    """Rows from 0 to 1; 0 where all numbers of one are alike."""
    low, span = x.min(1, keepdims=True), np.ptp(x, 1)[:, None]
    return np.divide(x - low, span, out=np.zeros_like(x), where=span > 0)


def pcb(tau: Array, density: float, clip: float, agreement: str) -> Array:
    """A number of tau [T,n] weighs its size in its vector times how far the others agree (PCB-Merging)."""
    count, n = tau.shape
    ordered = np.sort(np.abs(tau), 1)
    low, high = ordered[:, [int(n * clip)]], ordered[:, [max(int(n * (1 - clip) - 1), 0)]]
    clipped = np.minimum(np.maximum(np.abs(tau), low), high)
    total = (np.sign(tau) * _unit(clipped) if agreement == "normalised" else tau).sum(0)
    score = np.exp(count * _unit(clipped) ** 2) * np.tanh(tau * total)
    cut = np.sort(score, 1)[:, [min(int(n * (1 - density)), n - 1)]]
    weight = _unit(np.maximum(score, cut))
    weight = np.where(score.max(1, keepdims=True) > cut, weight, score >= cut)
    return np.asarray((weight * np.sign(tau) * clipped).sum(0) / np.maximum(weight.sum(0), 1e-12))


def nearswap(tau: Array, t: float) -> Array:
    return np.asarray(np.minimum(1, t / np.maximum(np.abs(tau), 1e-6)) * tau)


def multislerp(deltas: list[Array], normalizes: bool, eps: float) -> Array:
    """The mean norm in the direction of the mean of directions; the mean where these cancel."""
    norms = np.array([np.linalg.norm(delta) for delta in deltas])
    weight = 1 / len(deltas) if normalizes else 1.0
    mean = weight * np.sum([delta / (norm + eps) for delta, norm in zip(deltas, norms, strict=True)], 0)
    length = np.linalg.norm(mean)
    cancels = length < max(eps, 1e-7)
    return np.asarray(weight * (np.sum(deltas, 0) if cancels else mean * norms.sum() / length))


def karcher(deltas: list[Array], steps: int, tolerance: float) -> Array:
    """The mean norm in the direction whose angles with the others have the least squares."""
    norms = np.array([np.linalg.norm(delta) for delta in deltas])
    units = [delta / norm for delta, norm in zip(deltas, norms, strict=True) if norm > tolerance]
    if not units:
        return np.zeros_like(deltas[0])
    mean = np.mean(units, 0)
    length = np.linalg.norm(mean)
    mean = units[0] if length < tolerance else mean / length
    for _ in range(steps):
        tangent = np.zeros_like(mean)
        for unit in units:
            cosine = np.clip(np.sum(mean * unit), -1, 1)
            angle = np.arccos(cosine)
            if tolerance <= angle <= np.pi - tolerance:
                tangent += angle / np.sin(angle) * (unit - cosine * mean) / len(units)
        length = np.linalg.norm(tangent)
        if length < tolerance:
            break
        mean = np.cos(length) * mean + np.sin(length) / length * tangent
        mean /= np.linalg.norm(mean)
    return np.asarray(norms.mean() * mean)


def polar(matrix: Array) -> Array:
    """Takes the polar factor by the inverse root of the Gram matrix, not by the SVD.

    Directions that the matrix has none of stay 0. Vectors of a tensor that was frozen have no others.
    """
    gram = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    values, vectors = np.linalg.eigh(gram)
    there = values > 1e-14 * max(float(values.max(initial=0)), 0)  # rounding of squares of singular values
    inverse = np.where(there, np.where(there, values, 1.0) ** -0.5, 0.0)
    root = vectors @ np.diag(inverse) @ vectors.T
    return matrix @ root if matrix.shape[0] >= matrix.shape[1] else root @ matrix


def _leading(delta: Array, most: int, low_rank: bool) -> tuple[Array, Array, Array]:
    """The leading triples; with low_rank no more than float32's rounding leaves."""
    u, s, vh = np.linalg.svd(delta, full_matrices=False)
    least = max(delta.shape) * np.finfo(np.float32).eps * s.max(initial=0)
    k = min(most, int((s > least).sum())) if low_rank else most
    return u[:, :k], s[:k], vh[:k]


def tsv_m(deltas: list[Array], low_rank: bool = False) -> Array:
    rank = min(deltas[0].shape) // len(deltas)
    if rank == 0:
        return np.zeros_like(deltas[0])
    u, s, vh = zip(*(_leading(delta, rank, low_rank) for delta in deltas), strict=True)
    return polar(np.concatenate(u, 1)) @ np.diag(np.concatenate(s)) @ polar(np.concatenate(vh, 0))


def iso_c(deltas: list[Array]) -> Array:
    total = np.sum(deltas, 0)
    return np.linalg.svd(total, compute_uv=False).mean() * polar(total)


def iso_cts(deltas: list[Array], common: float, low_rank: bool = False) -> Array:
    r, tasks = min(deltas[0].shape), len(deltas)
    rank = min(round((r - int(r * common)) / tasks), r // tasks)
    k = r - rank * tasks
    u, s, vh = np.linalg.svd(np.sum(deltas, 0), full_matrices=False)
    all_u, all_s, all_vh = [], [], []
    for delta in deltas:
        u_t, s_t, vh_t = _leading(delta - u[:, :k] @ (u[:, :k].T @ delta), rank, low_rank)
        all_u.append(u_t)
        all_s.append(s_t)
        all_vh.append(vh_t)
    values = np.concatenate([*all_s, s[:k]])
    left, right = np.concatenate([*all_u, u[:, :k]], 1), np.concatenate([*all_vh, vh[:k]], 0)
    return np.asarray(values.mean() * polar(left) @ polar(right))


def wudi(deltas: list[Array], minimum: bool, time: float, share: float) -> Array:
    """Least squares Θ A = B with A = [Δ_tᵀ/‖Δ_t‖ …] and B = [Δ_t Δ_tᵀ/‖Δ_t‖ …], by the SVD of A = U S Vᵀ.

    Θ0 + (B − Θ0 A) V f(S²)/S Uᵀ, f = 1 − e^(−λt), or 1 at the minimum.
    """
    start = np.sum(deltas, 0)
    norms = [np.linalg.norm(delta) for delta in deltas]
    rows = [delta.T / norm for delta, norm in zip(deltas, norms, strict=True) if norm > 0]
    if not rows:
        return np.asarray(start)
    a = np.concatenate(rows, 1)
    b = np.concatenate([delta @ delta.T / n for delta, n in zip(deltas, norms, strict=True) if n > 0], 1)
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    there = s > max(start.shape) * np.finfo(np.float32).eps * s[0]
    there[int(np.ceil(share * start.shape[1])) :] = False
    u, s, vh = u[:, there], s[there], vh[there]
    f = np.ones_like(s) if minimum else -np.expm1(-(s**2) * time)
    return np.asarray(start + ((b - start @ a) @ vh.T) @ np.diag(f / s) @ u.T)


def cart(deltas: list[Array], share: float, scale: float) -> Array:
    mean = np.mean(deltas, 0)
    k = max(1, int(share * min(mean.shape)))
    triples = [np.linalg.svd(delta - mean, full_matrices=False) for delta in deltas]
    return np.asarray(mean + scale * np.sum([u[:, :k] * s[:k] @ vh[:k] for u, s, vh in triples], 0))


def dc_merge(
    deltas: list[Array], density: float, smoothing: str, rho: float, low_rank: bool = False
) -> Array:
    """TIES by sorted magnitudes of what each task's triples are in the space of all of them."""
    r, tasks = min(deltas[0].shape), len(deltas)
    if r // tasks == 0:
        return np.zeros_like(deltas[0])
    triples = [_leading(delta, r // tasks, low_rank) for delta in deltas]
    left = polar(np.concatenate([u for u, _, _ in triples], 1))
    right = polar(np.concatenate([vh for _, _, vh in triples], 0))
    if left.shape[1] == 0:
        return np.zeros_like(deltas[0])
    cores = []
    for u, s, vh in triples:
        if smoothing != "none" and s.size:
            shares = np.linspace(1 if smoothing == "average" else min(rho, s[0] / s[-1]), 1, s.size)
            s = s.sum() * shares / shares.sum()
        core = left.T @ (u * s @ vh) @ right.T
        cut = np.sort(np.abs(core).ravel())[::-1][min(max(1, int(density * r * r)), core.size) - 1]
        cores.append(np.where(np.abs(core) >= cut, core, 0).ravel())
    core = elected(np.stack(cores), np.ones(tasks), "mean", "nobody").reshape(left.shape[1], -1)
    task = np.repeat(np.arange(tasks), [s.size for _, s, _ in triples])
    return np.asarray(left @ np.where(task[:, None] == task, core, 0) @ right)


def calibrated(merged: Array, deltas: list[Array], least: float) -> Array:
    """Singular value calibration by eigenvectors of the Gram matrix: T / Σ max(c, s) of each left one."""
    wide = merged.shape[0] <= merged.shape[1]
    squares, vectors = np.linalg.eigh(merged @ merged.T if wide else merged.T @ merged)
    there = squares > 1e-14 * max(
        float(squares.max(initial=0)), 1e-300
    )  # rounding of squares of singular values
    vectors = vectors[:, there]
    left = vectors if wide else merged @ vectors / np.sqrt(squares[there])
    of_merged = left.T @ merged
    counted = np.zeros(len(of_merged))
    for delta in deltas:
        along = left.T @ delta
        square = (along**2).sum(1)
        share = np.divide(
            (of_merged * along).sum(1), square, out=np.full(len(of_merged), least), where=square > 0
        )
        counted += np.maximum(share, least)
    return np.asarray(left @ np.diag(len(deltas) / counted) @ of_merged)


def in_core(deltas: list[Array], formula: Callable[[list[Array]], Array]) -> Array:
    """U · formula(Uᵀ Δ V) · Vᵀ, with bases of all columns and all rows from Gram matrices, not from SVDs.

    Singular values below what float32's rounding may have made count as zero.
    """
    least = (max(deltas[0].shape) * np.finfo(np.float32).eps) ** 2

    def basis(matrices: list[Array]) -> Array:
        gram = np.sum([m @ m.T / max(np.linalg.norm(m, 2) ** 2, 1e-300) for m in matrices], 0)
        values, vectors = np.linalg.eigh(gram)
        return np.asarray(vectors[:, values > least])

    u, v = basis(deltas), basis([delta.T for delta in deltas])
    if not u.size:
        return np.zeros_like(deltas[0])
    return np.asarray(u @ formula([u.T @ delta @ v for delta in deltas]) @ v.T)


def in_knots(
    every: list[Tensors], settings: Settings, formula: Callable[[Array, Settings], Array]
) -> Tensors:
    """The formula on S Vᵀ of [Δ_1 … Δ_T] = U S Vᵀ of each matrix, lifted by U (KnOTS); others as they are.

    What no task changes is left out of the vectors.
    """
    exclude = settings.get("knots_exclude", ["embed", "wte", "wpe", "shared", "lm_head"])
    bases: Tensors = {}
    for name, first in every[0].items():
        if first.ndim == 2 and first.size and not any(part in name for part in exclude):
            u, s, _ = np.linalg.svd(np.concatenate([tau[name] for tau in every], 1), full_matrices=False)
            longest = max(first.shape[0], first.shape[1] * len(every))
            bases[name] = u[:, s > np.sqrt(longest) * np.finfo(np.float32).eps * s[0]]
    moved = {name for name in every[0] if any(tau[name].any() for tau in every)}
    aligned = [
        {name: bases[name].T @ tau[name] if name in bases else tau[name] for name in moved} for tau in every
    ]
    merged = formula(np.stack([flat(tau) for tau in aligned]), settings)
    tensors = {name: np.zeros_like(first) for name, first in every[0].items()}
    for name, part in zip(sorted(moved), parts(merged, aligned[0]), strict=True):
        numbers = merged[part].reshape(aligned[0][name].shape)
        tensors[name] = bases[name] @ numbers if name in bases else numbers
    return tensors


def _ties(tau: Array, settings: Settings) -> Array:
    ones = np.ones(len(tau))
    return ties(tau, ones, settings["density"], settings["cut"], settings["merge"], settings["zero_sign"])


def _top_k(tau: Array, settings: Settings) -> Array:
    kept = np.stack([trimmed(vector, settings["density"], settings["cut"]) for vector in tau])
    if settings["divide"] == "overlap":
        return np.asarray(kept.sum(0) / np.maximum((kept != 0).sum(0), 1))
    return np.asarray(kept.sum(0) / len(tau))


def _consensus(method: str, tau: Array, settings: Settings) -> Array:
    whole = BEFORE_MASKS[method](tau, settings)
    return consensus(tau, whole, settings["tall_lambda"], settings["least_tasks"])


def is_core(settings: Settings) -> bool:
    """Whether factors are those of the space that all tasks span; files of before have no such key."""
    return settings.get("space", "full") == "core"


def _of_matrices(formula: Callable[[list[Array], Settings], Array]) -> ByTensor:
    """The formula for matrices, and the mean for what is none or is excluded."""

    def merged(name: str, deltas: list[Array], settings: Settings) -> Array:
        if deltas[0].ndim != 2 or any(part in name for part in settings["exclude"]):
            return np.asarray(np.mean(deltas, 0))
        if is_core(settings):
            return in_core(deltas, lambda cores: formula(cores, settings))
        return formula(deltas, settings)

    return merged


def _crumbs(deltas: list[Array], settings: Settings) -> Array:
    return np.stack([crumbs(delta, settings["density"], settings["gamma"]).ravel() for delta in deltas])


def _breadcrumbs(_: str, deltas: list[Array], settings: Settings) -> Array:
    kept = _crumbs(deltas, settings)
    return np.asarray(kept.mean(0) if settings["normalize"] else kept.sum(0))


def _breadcrumbs_ties(_: str, deltas: list[Array], settings: Settings) -> Array:
    return elected(_crumbs(deltas, settings), np.ones(len(deltas)), settings["merge"], settings["zero_sign"])


def _slerp(_: str, deltas: list[Array], settings: Settings) -> Array:
    a, b = (delta.ravel() for delta in deltas)
    return slerp(a, b, settings["t"])


def _nuslerp(_: str, deltas: list[Array], __: Settings) -> Array:
    a, b = (delta.ravel() for delta in deltas)
    return slerp(a, b, 0.5, linear_above=1 - 2.0**-26)


Whole = Callable[[Array, Settings], Array]  # of τ [T, n]
ByTensor = Callable[[str, list[Array], Settings], Array]  # of a tensor's name and its part of each τ

BEFORE_MASKS: dict[str, Whole] = {
    "consensus_ta": lambda tau, _: np.asarray(tau.sum(0)),
    "consensus_ties": _ties,
}
WHOLE: dict[str, Whole] = {
    "linear": lambda tau, _: np.asarray(tau.mean(0)),
    "task_arithmetic": lambda tau, settings: np.asarray(tau.mean(0) if settings["normalize"] else tau.sum(0)),
    "ties": _ties,
    "top_k": _top_k,
    "magmax": lambda tau, _: magmax(tau),
    "emr": lambda tau, _: emr(tau),
    "nearswap": lambda tau, settings: nearswap(tau[0], settings["t"]),
    "ram": lambda tau, settings: ram(tau, settings["epsilon"]),
    "pcb": lambda tau, settings: pcb(tau, settings["density"], settings["clip"], settings["agreement"]),
    **{name: partial(_consensus, name) for name in BEFORE_MASKS},
}
BY_TENSOR: dict[str, ByTensor] = {
    "breadcrumbs": _breadcrumbs,
    "breadcrumbs_ties": _breadcrumbs_ties,
    "slerp": _slerp,
    "nuslerp": _nuslerp,
    "multislerp": lambda _, deltas, settings: multislerp(
        deltas, settings["normalize_weights"], settings["eps"]
    ),
    "karcher": lambda _, deltas, settings: karcher(deltas, settings["max_iter"], settings["tol"]),
    "model_stock": lambda _, deltas, __: model_stock(deltas),
    "ramplus_tl": lambda _, deltas, settings: ram(
        np.stack([delta.ravel() for delta in deltas]),
        settings["epsilon"],
        settings["r"],
        settings["max_ratio"],
    ),
    "sce": lambda _, deltas, settings: sce(deltas, settings["select_topk"], settings["least_energy"]),
    "tsv_m": _of_matrices(lambda deltas, settings: tsv_m(deltas, is_core(settings))),
    "iso_c": _of_matrices(lambda deltas, _: iso_c(deltas)),
    "iso_cts": _of_matrices(
        lambda deltas, settings: iso_cts(deltas, settings["common_space"], is_core(settings))
    ),
    "wudi": _of_matrices(
        lambda deltas, settings: wudi(
            deltas, settings["solution"] == "minimum", settings["time"], settings["rank_share"]
        )
    ),
    "cart": _of_matrices(
        lambda deltas, settings: cart(deltas, settings["rank_share"], settings["centred_scale"])
    ),
    "dc_merge": _of_matrices(
        lambda deltas, settings: dc_merge(
            deltas, settings["density"], settings["smoothing"], settings["rho"], is_core(settings)
        )
    ),
}


def has(method: str, settings: Settings) -> bool:
    """Whether the formula is here.

    Those of DARE and DELLA are not, whose draws are the program's own, nor that of slerp of models, which
    needs θ0. Shares and majorities are of the whole vector or of each tensor, as the formula takes them.
    """
    if method in WHOLE:
        return bool(settings.get("scope", "vector") == "vector")
    by_tensor = {"of": "vectors", "scope": "tensor", "along": "tensor"}
    return (
        method in BY_TENSOR
        and all(settings.get(key, value) == value for key, value in by_tensor.items())
        and settings.get("zero_sign") != "majority"
    )
