# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What may predict how badly two task vectors get along, against the accuracy of their sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from taugrid_analysis import correlation
from taugrid_analysis.correlation import Estimate
from taugrid_analysis.frames.pairs import twin
from taugrid_analysis.lacks import SPLIT
from taugrid_analysis.records import Floats
from taugrid_analysis.results import Results
from taugrid_analysis.run import Run

OUTCOMES = {"tuned": "normalized", "one shot": "one_shot_normalized"}  # columns of the frame of pairs
TITLES = {"tau_jp": "τJp", "cosine": "cosine", "bound": "Σ L C (1+ε)", "ntk": "NTK share − null"}
# ξ bounds the change of accuracy by construction: no predictor, but another measure of the outcome.
SAME_THING = {"xi_one": "ξ(1,1)", "xi_box": "ξ over [0,1]²"}


@dataclass(frozen=True)
class Line:
    """One predictor of one outcome in one regime. `looked`: how many predictors p is corrected for."""

    regime: str
    outcome: str
    predictor: str
    points: str  # the split that it is measured on
    pairs: int
    pearson: float
    spearman: Estimate
    looked: int


def predictors(run: Run, regime: str) -> dict[str, Floats]:
    """Name: a number a pair; those that this file can give. τJp on validation points where it has them."""
    if regime not in run.pairs.index.get_level_values("regime"):
        return {}
    frame = run.pairs.loc[regime]
    product = frame["tau_jp_validation"]
    found = {
        "tau_jp": product if product.notna().any() else frame["tau_jp"],
        "cosine": frame["cosine"],
        "bound": frame["bound_1"] + frame["bound_2"],
        "ntk": frame["ntk"],
        "xi_one": frame["xi_one"],
        "xi_box": frame["xi_box"],
    }
    return {name: values.to_numpy(dtype=float) for name, values in found.items() if values.notna().any()}


def splits(results: Results, regime: str) -> dict[str, str]:
    """Whose points each predictor is measured on."""
    product = twin(results, "tau_jp", regime)
    grid = results.data("disentanglement", regime)
    split = str(grid.attrs.get(SPLIT, "test")) if grid is not None else ""
    return {
        "tau_jp": "validation" if product is not None and "validation_value" in product else "test",
        "cosine": "none",
        "bound": "train",
        "ntk": "train",
        "xi_one": split,
        "xi_box": split,
    }


def outcome(run: Run, regime: str, name: str) -> Floats:
    """The normalised accuracy of every pair's sum."""
    return np.asarray(run.pairs.loc[regime][OUTCOMES[name]], dtype=float)


@lru_cache(maxsize=4)  # a table, a picture and a sentence of the report show them
def lines(run: Run) -> list[Line]:
    found = []
    for regime in run.results.names("pair_addition"):
        known, told = predictors(run, regime), splits(run.results, regime)
        for name in OUTCOMES:
            y = outcome(run, regime, name)
            for titles in (TITLES, SAME_THING):
                found += _family(run, regime, name, {key: known.get(key) for key in titles}, y, told)
    return found


def _family(
    run: Run, regime: str, name: str, known: Mapping[str, Floats | None], y: Floats, told: dict[str, str]
) -> list[Line]:
    """Predictors among which the best may be picked: p is corrected for as many as there are."""
    measured = {key: x for key, x in known.items() if x is not None}
    tested = correlation.estimates(measured, y, run.results.pairs)
    looked = sum(np.isfinite(one.value) for one in tested.values())
    return [
        Line(
            regime,
            name,
            key,
            told[key],
            correlation.usable(x, y),
            correlation.pearson(x, y),
            tested[key],
            looked,
        )
        for key, x in measured.items()
    ]
