# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What may predict how badly two task vectors get along, against the accuracy and the loss of their sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from taugrid_analysis.numbers import correlation, sampling
from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.numbers.correlation import Estimate
from taugrid_analysis.run.older_schema import SPLIT
from taugrid_analysis.run.opened import Run
from taugrid_analysis.run.regimes import ordered
from taugrid_analysis.run.results import Results

# Columns of the frame of pairs.
ACCURACIES = {"tuned": "normalized", "one shot": "one_shot_normalized"}
OUTCOMES = ACCURACIES | {"loss gap": "loss_gap"}
TITLES = {
    "tau_jp": "τJp",
    "cosine": "cosine",
    "bound": "Σ L C (1+ε)",
    "ntk": "NTK share − null",
    "linearity": "linearity error",
}
# ξ bounds the change of accuracy by construction: no predictor, but another measure of the outcome.
SAME_THING = {"xi_one": "ξ(1,1)", "xi_box": "ξ over [0,1]²"}


@dataclass(frozen=True)
class Line:
    """One predictor of one outcome in one regime. `looked`: how many correlations p is corrected for."""

    regime: str
    outcome: str
    predictor: str
    points: str  # the split that it is measured on
    pairs: int
    pearson: float
    spearman: Estimate
    looked: int
    seconds: float  # of all units that measure it, fine-tuning apart; NaN where the file does not tell


def predictors(run: Run, regime: str) -> dict[str, Floats]:
    """Name: a number a pair; those that this file can give. τJp on validation points where it has them."""
    if regime not in run.pairs.index.get_level_values("regime"):
        return {}
    frame = run.pairs.loc[regime]
    product = frame["tau_jp_validation"]
    columns = {
        "tau_jp": product if product.notna().any() else frame["tau_jp"],
        "cosine": frame["cosine"],
        "bound": frame["bound_1"] + frame["bound_2"],
        "ntk": frame["ntk"],
        "linearity": frame["linearity"],
        "xi_one": frame["xi_one"],
        "xi_box": frame["xi_box"],
    }
    return {name: values.to_numpy(dtype=float) for name, values in columns.items() if values.notna().any()}


def splits(results: Results, regime: str) -> dict[str, str]:
    """Whose points each predictor is measured on."""
    product = results.twin("tau_jp", regime)
    grid = results.data("disentanglement", regime)
    split = str(grid.attrs.get(SPLIT, "test")) if grid is not None else ""
    return {
        "tau_jp": "validation" if product is not None and "validation_value" in product else "test",
        "cosine": "none",
        "bound": "train",
        "ntk": "train",
        "linearity": "test",
        "xi_one": split,
        "xi_box": split,
    }


def seconds(results: Results, regime: str) -> dict[str, float]:
    """What each predictor's units took, of all pairs together; NaN where there are none."""
    other = results.same_vectors(regime)
    of_vectors = [regime] if other is None else [regime, other]
    units = results.units()

    def taken(*beginnings: str) -> float:
        times = [unit.seconds for unit in units if f"{unit.key}/".startswith(beginnings)]
        return sum(times) if times else float("nan")

    def first(kind: str) -> str:
        """The regime whose task vectors are looked at, or its twin's: they are the same."""
        measured = [name for name in of_vectors if np.isfinite(taken(f"{kind}/{name}/"))]
        return f"{kind}/{(measured or of_vectors)[0]}/"

    grid = [f"{kind}/{regime}/" for kind in ("predictions", "disentanglement", "features")]
    whole = taken(*grid, "features/base/") if results.regime(regime).linear else taken(*grid)
    return {
        "tau_jp": taken(first("features")),
        "cosine": taken(first("similarity")),
        "bound": taken(f"smoothness/{regime}/") + taken(first("similarity")),
        "ntk": taken(f"ntk/{results.start}/"),
        "linearity": taken(f"layer_products/{regime}/", f"linearity/{regime}/"),
        "xi_one": whole,
        "xi_box": whole,
    }


def outcome(run: Run, regime: str, name: str) -> Floats:
    """Each pair's outcome: its sum's normalised accuracy, or the mean of both tasks' loss gaps."""
    return np.asarray(run.pairs.loc[regime][OUTCOMES[name]], dtype=float)


@lru_cache(maxsize=4)  # a table, a picture and a sentence of the report show them
def lines(run: Run) -> list[Line]:
    rows = []
    measured = {*run.results.names("pair_addition"), *run.results.names("similarity")}
    for regime in ordered(measured if len(run.pairs) else set()):
        known, points, took = (
            predictors(run, regime),
            splits(run.results, regime),
            seconds(run.results, regime),
        )
        measured_outcomes = {name: outcome(run, regime, name) for name in OUTCOMES}
        outcomes = {name: y for name, y in measured_outcomes.items() if np.isfinite(y).any()}
        families = [
            _family(run, regime, {key: known.get(key) for key in titles}, outcomes, points, took)
            for titles in (TITLES, SAME_THING)
        ]
        for name in outcomes:
            rows += [line for family in families for line in family if line.outcome == name]
    return rows


def cheapest(candidates: Sequence[Line]) -> Line | None:
    """The predictor of fewest seconds that task permutations bear out, of one regime and outcome.

    Corrected for having looked at all predictors and outcomes; None where there is none.
    """
    tell = [
        line for line in candidates if line.predictor in TITLES and line.spearman.best < 1 - sampling.LEVEL
    ]
    return min(tell, key=lambda line: np.inf if np.isnan(line.seconds) else line.seconds, default=None)


def _family(
    run: Run,
    regime: str,
    known: Mapping[str, Floats | None],
    outcomes: Mapping[str, Floats],
    points: dict[str, str],
    took: dict[str, float],
) -> list[Line]:
    """Predictors and outcomes among which the best may be picked: p is corrected for as many as there are."""
    measured = {key: x for key, x in known.items() if x is not None}
    tested = correlation.estimates(measured, outcomes, run.results.pairs)
    looked = sum(np.isfinite(estimate.value) for every in tested.values() for estimate in every.values())
    return [
        Line(
            regime,
            name,
            key,
            points[key],
            correlation.usable(x, y),
            correlation.pearson(x, y),
            tested[name][key],
            looked,
            took[key],
        )
        for name, y in outcomes.items()
        for key, x in measured.items()
    ]
