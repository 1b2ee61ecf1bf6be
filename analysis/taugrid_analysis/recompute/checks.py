# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A number as it is stored beside the same number again, and how far they may be apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import h5py
import numpy as np

from taugrid_analysis.recompute.oracle import Oracle

EXACT = 1e-9  # what follows from stored numbers by arithmetic
ROUNDING = 1e-4  # relative: single precision against double, through a whole network
FLOOR = 2e-5  # absolute, of losses
TIES = 0.002  # part of the points that may lie on the border of two classes, besides one

Place = tuple[Any, ...]  # the regime first


@dataclass(frozen=True)
class Reading:
    stored: float
    again: float
    tolerance: float

    @property
    def undefined(self) -> bool:
        """Whether both are NaN, as is a cosine of what does not move: that agrees, whatever the tolerance."""
        return bool(np.isnan(self.stored) and np.isnan(self.again))

    @property
    def deviation(self) -> float:
        return 0.0 if self.undefined else abs(self.stored - self.again)

    @property
    def holds(self) -> bool:
        if np.isinf(self.stored) or np.isinf(self.again):  # whose tolerance would be infinite, too
            return self.stored == self.again
        return self.undefined or bool(self.deviation <= self.tolerance)


@dataclass(frozen=True)
class Check:
    """One quantity of a group: the places where it can be taken again, and how."""

    group: str
    quantity: str
    places: list[Place]
    measure: Callable[[Place], Reading]
    most: int = 10**9  # places, where one takes long

    @property
    def top(self) -> str:
        """The group of results.h5 that it is in."""
        return self.group.split("/")[0]


def relative(stored: float, again: float, part: float = ROUNDING, floor: float = 0.0) -> Reading:
    return Reading(float(stored), float(again), part * abs(float(again)) + floor)


def share(stored: float, again: float, points: int) -> Reading:
    """A share of points: one on the border of two classes may fall to either side, of many a few."""
    return Reading(float(stored), float(again), 1.01 * (1 + TIES * points) / max(points, 1))


def exact(stored: float, again: float) -> Reading:
    return Reading(float(stored), float(again), EXACT * max(1.0, abs(float(again))))


def names(oracle: Oracle, group: str) -> list[str]:
    node = oracle.results.get(group)
    return list(node) if isinstance(node, h5py.Group) else []


def places(oracle: Oracle, group: str, variable: str, regimes: list[str] | None = None) -> list[Place]:
    """(regime, index…) of every number of /GROUP/R/VARIABLE."""
    indices: list[Place] = []
    for regime in names(oracle, group) if regimes is None else regimes:
        path = f"{group}/{regime}/{variable}"
        if path in oracle.results:
            indices += [(regime, *index) for index in product(*map(range, oracle.results[path].shape))]
    return indices


def stored(oracle: Oracle, group: str, variable: str, place: Place) -> float:
    regime, *index = place
    return float(oracle.results[f"{group}/{regime}/{variable}"][tuple(index)])


def pairs(oracle: Oracle) -> list[tuple[int, int]]:
    if "pairs/tasks" not in oracle.results:  # of one task, or where none were asked for
        return []
    return [(int(i), int(j)) for i, j in oracle.results["pairs/tasks"][()]]


def with_bits(oracle: Oracle, group: str, variable: str, every: list[Place]) -> list[Place]:
    """The places for which the file says which points are right."""
    return [place for place in every if f"correct/{group}/{place[0]}/{variable}" in oracle.results]


def bits(oracle: Oracle, path: str, place: tuple[int, ...], right: np.ndarray) -> float | None:
    """Part of the points whose stored correctness differs; None where none is stored."""
    where = f"correct/{path}"
    if where not in oracle.results:
        return None
    stored_right = np.unpackbits(oracle.results[where][place])[: len(right)].astype(bool)
    return float((stored_right != right).mean())


def chosen(checks: Iterator[Check], points: int | None, seed: int) -> Iterator[tuple[Check, list[Place]]]:
    """Draws about `points` places of each group, over its quantities; all places where `points` is None."""
    by_group: dict[str, list[Check]] = {}
    for check in checks:
        by_group.setdefault(check.top, []).append(check)
    for group, members in by_group.items():
        rng = np.random.default_rng([seed, *group.encode()])
        for check in members:
            everyone = len(check.places)
            count = everyone if points is None else min(-(-points // len(members)), everyone, check.most)
            drawn = rng.choice(len(check.places), count, replace=False)
            yield check, [check.places[place] for place in sorted(drawn)]
