# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Merging methods that need data, as [merging] has them: τ of the tasks' own models, and what is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

from torch import Tensor

from taugrid_analysis.files import text
from taugrid_analysis.quantities.merging import data_formulas, masks
from taugrid_analysis.quantities.merging.formulas import Settings
from taugrid_analysis.quantities.merging.oracle_models import fine_tuned_models
from taugrid_analysis.recompute.checks import Check, Place, Reading, places, relative, stored
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat


def inputs(oracle: Oracle, group: str, t: int) -> Tensor:
    """The inputs of task t that the method took."""
    split = text(oracle.results[group].attrs["inputs"])
    return oracle.sample(split, t, oracle.rows(f"{group}/data_sample_index", t))[0]


@cache
def _informations(oracle: Oracle, name: str, regime: str, classes: str, batch: int) -> list[Parameters]:
    given = partial(inputs, oracle, f"merging/{name}/{regime}")
    return [
        data_formulas.fisher_information(model, given, classes, batch)
        for model in fine_tuned_models(oracle, regime)
    ]


def informations(oracle: Oracle, name: str, regime: str, settings: Settings) -> list[Parameters]:
    return _informations(oracle, name, regime, settings["fisher"], data_formulas.batch_of(settings))


@cache
def learnt(oracle: Oracle, method: str, regime: str) -> tuple[Tensor, list[float]]:
    """As data_formulas.coefficients(), of the tasks' own models."""
    return data_formulas.coefficients(
        fine_tuned_models(oracle, regime), oracle.inputs.config["merging"][method]
    )


def _of_tasks(method: str, oracle: Oracle, name: str, regime: str, settings: Settings) -> Parameters:
    """The informations of the tasks' own models, with what is known of them already."""
    models = fine_tuned_models(oracle, regime)
    if method == "fisher":
        return data_formulas.by_fisher(models, informations(oracle, name, regime, settings), settings)
    if method == "adamerging":
        return data_formulas.by_coefficients(models, learnt(oracle, name, regime)[0])
    return data_formulas.FORMULAS[method](
        models, settings, partial(inputs, oracle, f"merging/{name}/{regime}")
    )


def _stitched(method: str, oracle: Oracle, name: str, regime: str, settings: Settings) -> Parameters:
    return masks.stitch(
        masks.of_method(oracle, name, method, regime, settings), fine_tuned_models(oracle, regime)
    )


def joint(oracle: Oracle, name: str, regime: str, _: Settings) -> Parameters:
    """The vector of the model trained on all tasks together, which lies where the run says."""
    parts = text(oracle.results[f"merging/{name}/{regime}"].attrs["checkpoint"]).split("/")
    return {key: v - oracle.theta0[key] for key, v in oracle.joint(*parts).items()}


METHODS: dict[str, Callable[[Oracle, str, str, Settings], Parameters]] = {
    **{method: partial(_of_tasks, method) for method in ("fisher", "regmean", "adamerging")},
    **{method: partial(_stitched, method) for method in masks.METHODS},
    "joint": joint,
    "tangent": joint,
}


def checks(oracle: Oracle, name: str, method: str, settings: Settings) -> Iterator[Check]:
    """Checks what /merging/NAME has of its own."""
    if method == "fisher":
        yield from _of_fisher(oracle, name, settings)
    if method == "adamerging":
        yield from _of_adamerging(oracle, name)
    if method in masks.METHODS:
        yield from masks.checks(oracle, name, method, settings)


def _of_fisher(oracle: Oracle, method: str, settings: Settings) -> Iterator[Check]:
    group = f"merging/{method}"

    def measure(name: str, again: Callable[[Tensor], float], part: float, floor: float) -> Check:
        def reading(place: Place) -> Reading:
            regime, t = place
            value = again(flat(informations(oracle, method, regime, settings)[t]))
            return relative(stored(oracle, group, name, place), value, part, floor)

        return Check(group, name, places(oracle, group, name), reading)

    yield measure("norm", lambda f: float(f.norm()), 1e-3, 0.0)
    yield measure("floored", lambda f: float((f < settings["floor"]).double().mean()), 0.0, 2e-3)


def _of_adamerging(oracle: Oracle, method: str) -> Iterator[Check]:
    group = f"merging/{method}"

    def coefficient(place: Place) -> Reading:
        regime, t, s = place
        again = float(learnt(oracle, method, regime)[0][t, s])
        return relative(stored(oracle, group, "lambda", place), again, 0, 2e-3)

    def entropy(place: Place) -> Reading:
        regime, step = place
        return relative(
            stored(oracle, group, "entropy", place), learnt(oracle, method, regime)[1][step], 2e-3
        )

    yield Check(group, "lambda", places(oracle, group, "lambda"), coefficient)
    yield Check(group, "entropy", places(oracle, group, "entropy"), entropy)
