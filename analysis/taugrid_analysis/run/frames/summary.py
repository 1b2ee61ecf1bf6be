# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One row a regime: means over tasks or pairs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis.numbers import means, sampling
from taugrid_analysis.numbers.means import mean
from taugrid_analysis.numbers.measured import Measured, measured_mean
from taugrid_analysis.quantities.addition import sums
from taugrid_analysis.quantities.disentanglement import xi
from taugrid_analysis.quantities.negation import forgetting
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.frames.pairs import twin
from taugrid_analysis.run.regimes import JOINT
from taugrid_analysis.run.results import Results

NOTHING = Measured(float("nan"), float("nan"))


def summary(results: Results) -> pd.DataFrame:
    """Index regime: θ0, the regimes, joint models. What was not measured is NaN.

    single: accuracy of the tasks' own models (of a joint model: of that one); chosen_alpha, absolute,
    normalized of the sum of all task vectors, one_shot_… at α = 1; pairs, one_shot_pairs: normalised accuracy
    of pairs' sums; negated_alpha, negated, negated_control, kept (tasks whose control an α in [0,1] keeps),
    wide_… in [0,3], one_shot_… at α = 1; xi_near, xi_one, xi_box, xi_grid over the pairs; tau_jp of other
    tasks; norm, cosine (mean absolute), lambda_max.
    """
    names = [results.start, *results.regimes, *(n for n in results.names("multitask") if n in JOINT)]
    rows = [_row(results, name) for name in names]
    return pd.DataFrame(rows, index=pd.Index(names, name="regime"))


def _row(results: Results, name: str) -> dict[str, float]:
    found: dict[str, float] = {}

    def put(column: str, value: float) -> None:
        found[column] = float(value)
        if isinstance(value, Measured):
            found[f"{column}_error"] = value.error

    own = accuracies.accuracies(results, "multitask" if name in JOINT else "single_task", name, "accuracy")
    put("single", measured_mean(own.value.to_numpy(), own.error) if own is not None else NOTHING)
    for column, value in (_joint(results, name) if name in JOINT else _sum(results, name)).items():
        put(column, value)
    for column, value in {**_pairs(results, name), **_negation(results, name), **_xi(results, name)}.items():
        put(column, value)
    product, vectors = twin(results, "tau_jp", name), twin(results, "similarity", name)
    curvature = results.data("smoothness", name)
    between = means.symmetric(product["value"].to_numpy()) if product is not None else None
    put("tau_jp", mean(means.of_pairs(between, results.pairs)) if between is not None else np.nan)
    put("norm", mean(vectors["norm"].to_numpy()) if vectors is not None else np.nan)
    cosine = means.of_pairs(vectors["cosine"].to_numpy(), results.pairs) if vectors is not None else None
    put("cosine", mean(np.abs(cosine)) if cosine is not None else np.nan)
    put("lambda_max", mean(curvature["lambda_max"].to_numpy()) if curvature is not None else np.nan)
    return found


def _sum(results: Results, name: str) -> dict[str, float]:
    """As the file has them, with the errors of the points."""
    data = results.data("addition", name)
    found: dict[str, float] = {"chosen_alpha": float(data["chosen_alpha"]) if data is not None else np.nan}
    for prefix, alpha in (("", None), ("one_shot_", 1.0)):
        one = sums.added(results, name, alpha)
        for column, errors in (("absolute", "accuracy_error"), ("normalized", "normalized_error")):
            if data is None or one is None:
                found[prefix + column] = NOTHING
                continue
            error = float(sampling.of_mean(getattr(one, errors)))
            found[prefix + column] = Measured(float(data[prefix + column]), error)
    return found


def _joint(results: Results, name: str) -> dict[str, float]:
    """One model trained on all tasks: its accuracy, and over that of each task's own model."""
    found: dict[str, float] = {"chosen_alpha": np.nan, "absolute": NOTHING, "normalized": NOTHING}
    own = accuracies.accuracies(results, "multitask", name, "accuracy")
    single = accuracies.accuracies(results, "single_task", JOINT[name], "accuracy")
    if own is not None:
        value = own.value.to_numpy()
        found["absolute"] = measured_mean(value, own.error)
        if single is not None:
            errors = [accuracies.ratio_error(own, (t,), single, t) for t in range(len(value))]
            with np.errstate(divide="ignore", invalid="ignore"):
                found["normalized"] = measured_mean(value / single.value.to_numpy(), np.array(errors))
    return found | {"one_shot_absolute": NOTHING, "one_shot_normalized": NOTHING}


def _pairs(results: Results, name: str) -> dict[str, float]:
    """Without an error: the same points serve several pairs, and which of them agree is not known."""
    data = results.data("pair_addition", name)
    return {
        "pairs": mean(data["normalized"].to_numpy()) if data is not None else np.nan,
        "one_shot_pairs": mean(data["one_shot_normalized"].to_numpy()) if data is not None else np.nan,
    }


def _negation(results: Results, name: str) -> dict[str, float]:
    found: dict[str, float] = {}
    measured = results.data("negation", name) is not None
    for prefix in ("", "wide_", "one_shot_"):
        if prefix == "one_shot_":
            one = forgetting.one_shot_forgetting(results, name) if measured else None
        else:
            one = forgetting.forgetting(results, name, wide=bool(prefix)) if measured else None
        found[f"{prefix}negated_alpha"] = one.alpha if one is not None else np.nan
        found[f"{prefix}negated"] = one.target if one is not None else NOTHING
        found[f"{prefix}negated_control"] = one.control if one is not None else NOTHING
        found[f"{prefix}kept"] = one.kept if one is not None else np.nan
    return found


def _xi(results: Results, name: str) -> dict[str, float]:
    grid, chosen = results.data("disentanglement", name), results.pairs
    if grid is None:
        return dict.fromkeys(("xi_near", "xi_one", "xi_box", "xi_grid"), NOTHING)
    found: dict[str, float] = {}
    for column, alpha in (("xi_near", xi.NEAR_ORIGIN), ("xi_one", 1.0)):
        error = xi.pairs_mean_error(xi.at_errors(grid, alpha, alpha, chosen), chosen)
        found[column] = Measured(mean(xi.at(grid, alpha, alpha)), error)
    errors = xi.mean_errors(grid, chosen)
    for column, box in (("xi_box", (0.0, 1.0)), ("xi_grid", (-np.inf, np.inf))):
        cells = errors[xi.box(grid, *box)] if errors is not None else np.array([])
        found[column] = Measured(mean(xi.box_mean(grid, *box)), cells.mean() if cells.size else np.nan)
    return found
