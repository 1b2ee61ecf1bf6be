# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Signs and masks of what TIES keeps of task vectors again, by sorting."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial

import torch
from torch import Tensor

from taugrid_analysis.recompute.checks import Check, Place, Reading, places, stored
from taugrid_analysis.recompute.oracle import Oracle, flat

GROUP = "similarity"


def checks(oracle: Oracle) -> Iterator[Check]:
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
        if every := places(oracle, GROUP, name):
            yield Check(GROUP, name, every, measure)
