# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Mean ‖J(x)τ‖² again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from taugrid_analysis.recompute.checks import Check, Place, Reading, places, relative, stored
from taugrid_analysis.recompute.common import each_place
from taugrid_analysis.recompute.oracle import Oracle


def mean_square_product(oracle: Oracle, regime: str, a: int, x: Tensor, b: int) -> float:
    """Mean ‖J(x)τ_a‖² (paper 3, equation 9), J of task b's output."""
    return float(oracle.tangent(oracle.tau(regime, a), x, b)[1].square().sum(1).mean())


def checks(oracle: Oracle) -> Iterator[Check]:
    group = "tau_jp"

    def value(name: str, split: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, a, b = place
            prefix = "" if split == "test" else "validation_"
            x, _ = oracle.points(f"{group}/{regime}/{prefix}sample_index", b, split)
            return relative(stored(oracle, group, name, place), mean_square_product(oracle, regime, a, x, b))

        return measure

    def control(name: str, split: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, a = place
            x, _ = oracle.sample(split, len(oracle.tasks), oracle.control_rows(split))
            again = mean_square_product(oracle, regime, a, x, len(oracle.tasks))
            return relative(stored(oracle, group, name, place), again)

        return measure

    yield from each_place(oracle, group, "value", value("value", "test"))
    yield from each_place(oracle, group, "control", control("control", "test"))
    yield from each_place(oracle, group, "validation_control", control("validation_control", "validation"))
    known = places(oracle, group, "validation_value")
    known = [place for place in known if f"{group}/{place[0]}/validation_sample_index" in oracle.results]
    if known:
        yield Check(group, "validation_value", known, value("validation_value", "validation"))
