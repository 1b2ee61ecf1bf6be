# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One row a regime and pair: how far two task vectors disturb each other, and what may predict it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from taugrid_analysis.numbers import means
from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.quantities.disentanglement import xi
from taugrid_analysis.quantities.ntk import shares
from taugrid_analysis.quantities.smoothness import pair_bounds
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.regimes import is_linear, same_vectors
from taugrid_analysis.run.results import Results


def twin(results: Results, group: str, regime: str) -> xr.Dataset | None:
    """The group of a regime, or of one with the same task vectors: cosines and J(x)τ at θ0 are the same."""
    found = results.data(group, regime)
    other = same_vectors(regime)
    return found if found is not None or other is None else results.data(group, other)


def pairs(results: Results) -> pd.DataFrame:
    """Index (regime, pair). What was not measured is NaN.

    task_1, task_2; cosine; sign_conflict, of the numbers that both vectors keep, and mask_overlap, of the
    places that either keeps; loss_gap_1, loss_gap_2 and bound_1, bound_2 of the bases paper, and loss_gap,
    the mean over both tasks; linearity: ‖u − v‖/‖f₁ − f₂‖ of the last layer at the α nearest ½, NaN of a
    linearised model, which is exact but for rounding; tau_jp and its two
    directions tau_jp_12 (τ of task 1 on points of task 2), tau_jp_21, on test points, and tau_jp_validation;
    xi_one, xi_box, xi_grid: ξ(1,1), mean over [0,1]², over the grid; kl_… and symmetric_kl_… the same of the
    encoder's outputs; ntk: share of the local energy beyond its null; chosen_alpha, absolute, normalized of
    the pair's sum, and one_shot_… at α = 1.
    """
    index = pd.Index([results.pair_name(pair) for pair in range(len(results.pairs))], name="pair")
    regimes = [name for name in results.regimes if _any(results, name)]
    parts = {name: pd.DataFrame(_columns(results, name), index=index) for name in regimes}
    if not parts:
        return pd.DataFrame(index=pd.MultiIndex.from_tuples([], names=["regime", "pair"]))
    return pd.concat(parts, names=["regime"])


GROUPS = (
    *("similarity", "disentanglement", "representation", "tau_jp", "pair_addition"),
    *("smoothness", "linearity"),
)


def _any(results: Results, name: str) -> bool:
    return any(twin(results, group, name) is not None for group in GROUPS)


def _columns(results: Results, name: str) -> dict[str, Array]:
    chosen = results.pairs
    names = np.array(results.tasks, dtype=object)
    found: dict[str, Array] = {"task_1": names[chosen[:, 0]], "task_2": names[chosen[:, 1]]}
    found |= _vectors(results, name) | _products(results, name) | _mixed(results, name)
    for prefix, group, variable in (
        ("xi", "disentanglement", "error"),
        ("kl", "representation", "error"),
        ("symmetric_kl", "representation", "symmetric_error"),
    ):
        found |= _grid(results.data(group, name), variable, prefix, chosen)
    kernel = results.data("ntk", results.start)
    separation = shares.ntk_separation(kernel, chosen) if kernel is not None else None
    found["ntk"] = separation if separation is not None else _nothing(results)
    return found | _sums(results, name)


def _nothing(results: Results) -> Floats:
    return np.full(len(results.pairs), np.nan)


def _vectors(results: Results, name: str) -> dict[str, Array]:
    nothing, chosen = _nothing(results), results.pairs
    vectors, curvature = twin(results, "similarity", name), results.data("smoothness", name)
    own = results.data("similarity", name)
    found = {
        matrix: means.of_pairs(vectors[matrix].to_numpy(), chosen)
        if vectors is not None and matrix in vectors
        else nothing
        for matrix in ("cosine", "sign_conflict", "mask_overlap")
    }
    known = curvature is not None and vectors is not None
    bounds = (
        pair_bounds.bounds(curvature["lambda_max"].to_numpy(), vectors, chosen)
        if known and curvature is not None and vectors is not None
        else None
    )
    for side in (0, 1):
        gap = own["loss_gap"].to_numpy()[:, side] if own is not None and "loss_gap" in own else nothing
        found[f"loss_gap_{side + 1}"] = gap
        found[f"bound_{side + 1}"] = bounds[:, side] if bounds is not None else nothing
    found["loss_gap"] = (found["loss_gap_1"] + found["loss_gap_2"]) / 2
    return found


def _mixed(results: Results, name: str) -> dict[str, Array]:
    data = None if is_linear(name) else results.data("linearity", name)
    if data is None:
        return {"linearity": _nothing(results)}
    half = int(np.argmin(np.abs(data["alpha"].to_numpy() - 0.5)))
    return {"linearity": data["error"].to_numpy()[:, -1, half, 0].astype(float)}  # statistic 0: the mean


def _products(results: Results, name: str) -> dict[str, Array]:
    nothing, chosen = _nothing(results), results.pairs
    product = twin(results, "tau_jp", name)
    found = dict.fromkeys(("tau_jp", "tau_jp_12", "tau_jp_21", "tau_jp_validation"), nothing)
    if product is None:
        return found
    value = product["value"].to_numpy()
    found["tau_jp"] = means.of_pairs(means.symmetric(value), chosen)
    found["tau_jp_12"] = means.of_pairs(value, chosen)
    found["tau_jp_21"] = means.of_pairs(value.T, chosen)
    if "validation_value" in product:
        other = means.symmetric(product["validation_value"].to_numpy())
        found["tau_jp_validation"] = means.of_pairs(other, chosen)
    return found


def _grid(grid: xr.Dataset | None, variable: str, prefix: str, chosen: Array) -> dict[str, Array]:
    nothing = np.full(len(chosen), np.nan)
    columns = [f"{prefix}_one", f"{prefix}_box", f"{prefix}_grid"]
    if grid is None or variable not in grid:
        found = dict.fromkeys(columns, nothing)
    else:
        numbers = (
            xi.at(grid, 1.0, 1.0, variable),
            xi.box_mean(grid, 0.0, 1.0, variable),
            xi.box_mean(grid, variable=variable),
        )
        found = dict(zip(columns, numbers, strict=True))
    if prefix == "xi":
        found |= dict.fromkeys((f"{column}_error" for column in columns), nothing)
        if grid is not None:
            found |= _grid_errors(grid, chosen)
    return found


def _grid_errors(grid: xr.Dataset, chosen: Array) -> dict[str, Array]:
    """A pair's cells have the same points: a mean over cells has at most the mean of their errors."""
    at_one = np.hypot(*xi.at_errors(grid, 1.0, 1.0, chosen).T)
    terms = xi.errors(grid, chosen)
    if terms is None:
        return {"xi_one_error": at_one}
    cells = np.hypot(terms[:, 0], terms[:, 1])
    inside = cells[(..., *xi.box(grid, 0.0, 1.0))]
    unknown = np.full(len(chosen), np.nan)
    return {
        "xi_one_error": at_one,
        "xi_box_error": inside.mean(axis=(1, 2)) if inside.size else unknown,
        "xi_grid_error": cells.mean(axis=(1, 2)),
    }


def _sums(results: Results, name: str) -> dict[str, Array]:
    nothing = _nothing(results)
    data = results.data("pair_addition", name)
    columns = ("chosen_alpha", "absolute", "normalized", "one_shot_absolute", "one_shot_normalized")
    found: dict[str, Array] = {}
    for column in columns:
        found[column] = data[column].to_numpy() if data is not None else nothing
        if column != "chosen_alpha":
            found[f"{column}_error"] = nothing
    if data is None:
        return found
    for prefix in ("", "one_shot_"):
        alpha = data["chosen_alpha"].to_numpy() if not prefix else np.ones(len(results.pairs))
        errors = sum_errors(results, name, alpha)
        for column, error in zip(("absolute", "normalized"), errors, strict=True):
            found[f"{prefix}{column}_error"] = error
    return found


def sum_errors(results: Results, name: str, alpha: Array) -> tuple[Floats, Floats]:
    """Standard errors of the mean accuracy of a pair's two tasks, and of the mean over their own models'."""
    test = accuracies.accuracies(results, "pair_addition", name, "test_accuracy")
    own = accuracies.accuracies(results, "single_task", name, "accuracy")
    assert test is not None
    absolute, normalized = _nothing(results), _nothing(results)
    error = test.error
    for pair, both in enumerate(results.pairs):
        place = means.place_of(test.value["alpha"].to_numpy(), float(alpha[pair]))
        if place is None:
            continue
        absolute[pair] = np.hypot(*error[pair, place]) / 2
        if own is not None:
            ratios = [
                accuracies.ratio_error(test, (pair, place, side), own, int(task))
                for side, task in enumerate(both)
            ]
            normalized[pair] = np.hypot(ratios[0], ratios[1]) / 2
    return absolute, normalized
