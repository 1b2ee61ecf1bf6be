# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The Hessian's eigenvalue of largest magnitude again, with its sign."""

from __future__ import annotations

from collections.abc import Iterator

from taugrid_analysis.recompute.checks import Check, Place, Reading, relative, stored
from taugrid_analysis.recompute.common import each_place
from taugrid_analysis.recompute.oracle import Oracle

SLOW = 2  # eigenvalues of a Hessian: a minute each on a small model


def checks(oracle: Oracle) -> Iterator[Check]:
    group = "smoothness"

    def measure(place: Place) -> Reading:
        """An eigenvalue lies within ‖Hv − λv‖ of λ: the residual bounds the error, rounding aside.

        One above the run's tolerance bounds nothing: the number is then held against the tolerance.
        """
        tolerance = float(oracle.results[f"{group}/{place[0]}"].attrs.get("tolerance", 1e-2))
        part = min(stored(oracle, group, "residual", place), tolerance) + 2e-5
        return relative(stored(oracle, group, "lambda_max", place), oracle.largest_eigenvalue(*place), part)

    yield from each_place(oracle, group, "lambda_max", measure, SLOW)
