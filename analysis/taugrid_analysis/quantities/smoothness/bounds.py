# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The three bounds of the bases paper (paper 2, section 4.2) beside what they bound, task by task."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.numbers.means import of_pairs, off_diagonal
from taugrid_analysis.quantities.smoothness import magnitude
from taugrid_analysis.run.opened import Run

ALPHA = 0.5  # the theorem's coefficients add up to 1, so ½ for each task of a pair


def all_bounds(run: Run) -> dict[str, pd.DataFrame]:
    """The bounds of each regime that has them."""
    known = {name: bounds(run, name) for name in run.results.names("smoothness")}
    return {name: frame for name, frame in known.items() if frame is not None}


def bounds(run: Run, regime: str) -> pd.DataFrame | None:
    """One row a pair and task of it: task, partner, gap, bound, curvature, size, similarity, tightness.

    gap: L_i(θ0 + ½(τ_i + τ_j)) − L_i(θ0 + τ_i), mean test loss in nat; bound: L_i C (1 + ε), with the
    curvature L_i of the training loss, the larger ‖τ‖² of both as C (size) and |cos(τ_i, τ_j)| as ε
    (similarity); tightness: gap/bound, above 1 where the bound does not hold. None where the run has not both
    or no pairs, or the gap is measured at other coefficients.
    """
    vectors, constants = run.data("similarity", regime), _constants(run, regime)
    if vectors is None or constants is None or run.pairs.empty:
        return None
    if abs(float(vectors.attrs.get("alpha", np.nan)) - ALPHA) > 1e-12:
        return None
    curvature, size, cosine, _ = constants
    frame, pairs = run.pairs.loc[regime], run.results.pairs
    parts = [
        pd.DataFrame(
            {
                "task": frame[f"task_{side}"],
                "partner": frame[f"task_{3 - side}"],
                "gap": frame[f"loss_gap_{side}"],
                "bound": frame[f"bound_{side}"],
                "curvature": curvature[pairs[:, side - 1]],
                "size": of_pairs(size, pairs),
                "similarity": np.abs(of_pairs(cosine, pairs)),
            }
        )
        for side in (1, 2)
    ]
    return _with_tightness(pd.concat(parts))


def sums(run: Run, regime: str) -> pd.DataFrame | None:
    """One row a task, of the sum of all T vectors at 1/T, as bounds().

    gap: L_i(θ0 + Σ τ/T) − L_i(θ0 + τ_i), mean test loss in nat; bound: L_i C (1 + ε), as for pairs, with the
    largest ‖τ‖² of all as C and the largest |cos| of any two as ε. None where no α is 1/T to three digits.
    """
    vectors, constants = run.data("similarity", regime), _constants(run, regime)
    tasks = run.results.tasks
    if vectors is None or constants is None or "sum_loss_gap" not in vectors or len(tasks) < 2:
        return None
    coefficients = vectors["sum_alpha"].to_numpy().astype(float) * len(tasks)  # of a sum: 1 by the theorem
    place = int(np.abs(coefficients - 1).argmin())
    if abs(coefficients[place] - 1) > 0.005:
        return None
    curvature, size, cosine, _ = constants
    gaps = vectors["sum_loss_gap"].to_numpy()[:, place].astype(float)
    largest = float(size.max()), float(np.abs(off_diagonal(cosine)).max())
    rows = [
        (task, "all", gap, constant, *largest)
        for task, gap, constant in zip(tasks, gaps, curvature, strict=True)
    ]
    return _bounded(rows, lambda similarity: 1 + similarity)


def negation(run: Run, regime: str) -> pd.DataFrame | None:
    """One row an ordered pair of tasks, j ("task") and i ("partner"), as bounds().

    gap: L_j(θ0 − τ_i) − L_j(θ0), mean test loss in nat; bound: L_j C (3/2 + ε), with the larger ‖τ‖² of both
    as C and |cos(τ_i, τ_j)| as ε.
    """
    losses, start = _cross_loss(run, regime, -1.0), run.data("single_task", run.results.start)
    constants = _constants(run, regime)
    if losses is None or start is None or constants is None:
        return None
    curvature, size, cosine, _ = constants
    base = start["loss"].to_numpy().astype(float)
    tasks = run.results.tasks
    rows = [
        (tasks[j], tasks[i], losses[i, j] - base[j], curvature[j], size[i, j], abs(cosine[i, j]))
        for j in range(len(tasks))
        for i in range(len(tasks))
        if i != j
    ]
    return _bounded(rows, lambda similarity: 1.5 + similarity)


def transfer(run: Run, regime: str) -> pd.DataFrame | None:
    """One row a task j and the task i of all others with the largest ⟨τ_i, τ_j⟩ ("partner"), as bounds().

    gap: L_j(θ0 + τ_i) − L_j(θ0 + τ_j), mean test loss in nat; bound: L_j C (1 − β), with the larger ‖τ‖² of
    both as C and ⟨τ_i, τ_j⟩/C as β, which the theorem assumes above 0.
    """
    losses, alone = _cross_loss(run, regime, 1.0), run.data("single_task", regime)
    constants = _constants(run, regime)
    if losses is None or alone is None or constants is None or len(losses) < 2:
        return None
    curvature, size, _, product = constants
    others = product.copy()
    np.fill_diagonal(others, -np.inf)
    base = alone["loss"].to_numpy().astype(float)
    tasks = run.results.tasks
    rows = [
        (tasks[j], tasks[i], losses[i, j] - base[j], curvature[j], size[i, j], product[i, j] / size[i, j])
        for j, i in enumerate(others.argmax(axis=0).tolist())
    ]
    return _bounded(rows, lambda similarity: 1 - similarity)


def _cross_loss(run: Run, regime: str, alpha: float) -> Floats | None:
    """The loss of task i's vector times α on task j [T,T]."""
    data = run.data("similarity", regime)
    if data is None or "cross_loss" not in data:
        return None
    places = np.flatnonzero(np.abs(data["cross_alpha"].to_numpy().astype(float) - alpha) < 1e-12)
    return data["cross_loss"].to_numpy()[:, :, places[0]].astype(float) if len(places) else None


def _constants(run: Run, regime: str) -> tuple[Floats, Floats, Floats, Floats] | None:
    """|λ_max| [T]; of two tasks [T,T] the larger ‖τ‖², cos(τ_i, τ_j) and ⟨τ_i, τ_j⟩."""
    vectors, curvature = run.data("similarity", regime), run.data("smoothness", regime)
    if vectors is None or curvature is None:
        return None
    norm = vectors["norm"].to_numpy().astype(float)
    cosine = vectors["cosine"].to_numpy().astype(float)
    return (
        magnitude(curvature),
        np.maximum.outer(norm, norm) ** 2,
        cosine,
        cosine * np.outer(norm, norm),
    )


def _bounded(
    rows: list[tuple[str, str, float, float, float, float]], factor: Callable[[pd.Series], pd.Series]
) -> pd.DataFrame | None:
    frame = pd.DataFrame(rows, columns=["task", "partner", "gap", "curvature", "size", "similarity"])
    frame["bound"] = frame["curvature"] * frame["size"] * factor(frame["similarity"])
    return _with_tightness(frame)


def _with_tightness(frame: pd.DataFrame) -> pd.DataFrame | None:
    """The rows that have a gap and a bound above 0."""
    frame = frame[np.isfinite(frame["gap"].astype(float)) & (frame["bound"].astype(float) > 0)]
    return frame.assign(tightness=frame["gap"] / frame["bound"]) if len(frame) else None
