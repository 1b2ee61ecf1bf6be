# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Norms, cosines, loss gaps, signs and masks of task vectors again; the masks by sorting."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial

import torch
from torch import Tensor

from taugrid_analysis.recompute.checks import (
    FLOOR,
    ROUNDING,
    Check,
    Place,
    Reading,
    pairs,
    relative,
    stored,
)
from taugrid_analysis.recompute.common import each_place
from taugrid_analysis.recompute.oracle import Oracle, flat

GROUP = "similarity"


def _vectors(oracle: Oracle) -> Iterator[Check]:
    both = pairs(oracle)

    def norm(regime: str, t: int) -> float:
        return float(flat(oracle.tau(regime, t)).norm())

    def cosine(place: Place) -> Reading:
        regime, a, b = place
        product = float(flat(oracle.tau(regime, a)) @ flat(oracle.tau(regime, b)))
        again = product / (norm(regime, a) * norm(regime, b))
        return Reading(stored(oracle, GROUP, "cosine", place), again, 1e-5)

    def gap(place: Place) -> Reading:
        regime, p, side = place
        alpha, t = float(oracle.results[f"{GROUP}/{regime}"].attrs["alpha"]), both[p][side]
        index = f"{GROUP}/{regime}/sample_index"
        _, merged = oracle.accuracy_and_loss(regime, dict.fromkeys(both[p], alpha), t, index)
        _, single = oracle.accuracy_and_loss(regime, {t: 1.0}, t, index)
        value = stored(oracle, GROUP, "loss_gap", place)
        return Reading(value, merged - single, ROUNDING * (abs(merged) + abs(single)) + FLOOR)

    def sum_gap(place: Place) -> Reading:
        regime, t, k = place
        alpha = float(oracle.results[f"{GROUP}/{regime}/sum_alpha"][k])
        index = f"{GROUP}/{regime}/sample_index"
        _, merged = oracle.accuracy_and_loss(regime, dict.fromkeys(range(len(oracle.tasks)), alpha), t, index)
        _, single = oracle.accuracy_and_loss(regime, {t: 1.0}, t, index)
        value = stored(oracle, GROUP, "sum_loss_gap", place)
        return Reading(value, merged - single, ROUNDING * (abs(merged) + abs(single)) + FLOOR)

    def cross(place: Place) -> Reading:
        regime, i, j, k = place
        alpha = float(oracle.results[f"{GROUP}/{regime}/cross_alpha"][k])
        _, loss = oracle.accuracy_and_loss(regime, {i: alpha}, j, f"{GROUP}/{regime}/sample_index")
        return Reading(stored(oracle, GROUP, "cross_loss", place), loss, ROUNDING * abs(loss) + FLOOR)

    yield from each_place(oracle, GROUP, "cosine", cosine)
    yield from each_place(
        oracle,
        GROUP,
        "norm",
        lambda place: relative(stored(oracle, GROUP, "norm", place), norm(*place), 1e-5),
    )
    yield from each_place(
        oracle,
        GROUP,
        "norm_ratio",
        lambda place: relative(
            stored(oracle, GROUP, "norm_ratio", place),
            norm(*place) / float(flat(oracle.theta0).norm()),
            1e-5,
        ),
    )
    yield from each_place(oracle, GROUP, "loss_gap", gap)
    yield from each_place(oracle, GROUP, "sum_loss_gap", sum_gap)
    yield from each_place(oracle, GROUP, "cross_loss", cross)


def _signs(oracle: Oracle) -> Iterator[Check]:
    @lru_cache(4)
    def kept(regime: str, t: int, trims: bool) -> Tensor:
        """Signs of the numbers that are kept, 0 elsewhere. Differences of float32, as they were taken."""
        tau = flat(oracle.tau(regime, t)).float()
        if not trims:
            return tau.sign()
        density = float(oracle.results[f"{GROUP}/{regime}"].attrs["density"])
        k = min(int(density * len(tau)) + 1, len(tau))
        return torch.where(tau.abs() >= tau.abs().sort(descending=True).values[k - 1], tau, 0).sign()

    def conflict(name: str, trims: bool, place: Place) -> Reading:
        a, b = (kept(place[0], t, trims) for t in place[1:])
        again = float((a * b < 0).sum() / (a * b != 0).sum())
        return Reading(stored(oracle, GROUP, name, place), again, 1e-5)

    def overlap(place: Place) -> Reading:
        a, b = (kept(place[0], t, True) != 0 for t in place[1:])
        again = float((a & b).sum() / (a | b).sum())
        return Reading(stored(oracle, GROUP, "mask_overlap", place), again, 1e-5)

    def density(place: Place) -> Reading:
        again = float((kept(*place, True) != 0).double().mean())
        return Reading(stored(oracle, GROUP, "mask_density", place), again, 1e-5)

    for name, measure in (
        ("sign_conflict", partial(conflict, "sign_conflict", True)),
        ("sign_conflict_all", partial(conflict, "sign_conflict_all", False)),
        ("mask_overlap", overlap),
        ("mask_density", density),
    ):
        yield from each_place(oracle, GROUP, name, measure)


def checks(oracle: Oracle) -> Iterator[Check]:
    yield from _vectors(oracle)
    yield from _signs(oracle)
