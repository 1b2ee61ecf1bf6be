# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What may predict how badly two task vectors get along, against the accuracy of their sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from taugrid_analysis import correlation, measures
from taugrid_analysis.correlation import Estimate
from taugrid_analysis.records import Floats, Similarity, TauJp
from taugrid_analysis.regimes import same_vectors
from taugrid_analysis.results import Results

OUTCOMES = ("tuned", "one shot")
TITLES = {
    "tau_jp": "τJp",
    "cosine": "cosine",
    "xi_one": "ξ(1,1)",
    "xi_box": "ξ over [0,1]²",
    "bound": "λ_max C (1+ε)",
    "ntk": "NTK overlap",
}


@dataclass(frozen=True)
class Line:
    """One predictor of one outcome in one regime."""

    regime: str
    outcome: str
    predictor: str
    pairs: int
    pearson: Estimate
    spearman: Estimate


def vectors(results: Results, regime: str) -> Similarity | None:
    """Of a regime that has no fine-tuning of its own: those of the regime that trained them."""
    other = same_vectors(regime)
    return results.similarity(regime) or (results.similarity(other) if other else None)


def tau_jp(results: Results, regime: str) -> TauJp | None:
    """J at θ0 times the task vectors, so a non-linear regime has it from its linearised twin."""
    other = same_vectors(regime)
    return results.tau_jp(regime) or (results.tau_jp(other) if other else None)


def outcomes(results: Results, regime: str) -> dict[str, Floats]:
    record = results.pair_addition(regime)
    if record is None:
        return {}
    return dict(zip(OUTCOMES, (record.normalized, record.one_shot_normalized), strict=True))


def outcome(results: Results, name: str) -> Callable[[str], Floats | None]:
    """By regime, one outcome of every pair."""
    return lambda regime: outcomes(results, regime).get(name)


def predictors(results: Results, regime: str) -> dict[str, Floats]:
    """Name: a number a pair; those that this file can give."""
    pairs = results.pairs
    found: dict[str, Floats] = {}
    product, similar = tau_jp(results, regime), vectors(results, regime)
    grid, curvature = results.disentanglement(regime), results.smoothness(regime)
    kernel = results.ntk(results.start)
    if product is not None:
        found["tau_jp"] = measures.of_pairs(measures.symmetric(product.value), pairs)
    if similar is not None:
        found["cosine"] = measures.of_pairs(similar.cosine, pairs)
    if grid is not None:
        found["xi_one"] = measures.at(grid, 1.0, 1.0)
        found["xi_box"] = measures.box_mean(grid, 0.0, 1.0)
    if curvature is not None and similar is not None:
        found["bound"] = measures.interference_bound(curvature.lambda_max, similar, pairs)
    if kernel is not None:
        found["ntk"] = measures.ntk_overlap(kernel.local_energy, pairs)
    return found


@lru_cache(maxsize=1)  # the report shows them as a table and as a picture
def lines(results: Results) -> list[Line]:
    found = []
    for regime in results.names("pair_addition"):
        known = predictors(results, regime)
        absent = np.full(len(results.pairs), np.nan)
        for outcome, accuracy in outcomes(results, regime).items():
            for name in TITLES:
                x = known.get(name, absent)
                found.append(
                    Line(
                        regime,
                        outcome,
                        name,
                        correlation.usable(x, accuracy),
                        correlation.estimate(x, accuracy, ranks=False),
                        correlation.estimate(x, accuracy, ranks=True),
                    )
                )
    return found
