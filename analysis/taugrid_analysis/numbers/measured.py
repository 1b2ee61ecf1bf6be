# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A number with its standard error, and means of such numbers."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers.arrays import Array


class Measured(float):
    """A number with the standard error of the evaluation sample; NaN where the error is unknown."""

    error: float

    def __new__(cls, value: float, error: float) -> Measured:
        number = super().__new__(cls, value)
        number.error = float(error)
        return number


def percent(value: Measured) -> Measured:
    return Measured(100 * value, 100 * value.error)


NOTHING = Measured(float("nan"), float("nan"))


def measured_mean(values: Array, errors: Array) -> Measured:
    """The mean of what is finite, over different tasks: their evaluation points are independent."""
    from taugrid_analysis.numbers import sampling  # loads SciPy, which --help does without

    finite = np.isfinite(values)
    if not finite.any():
        return NOTHING
    return Measured(float(np.mean(values[finite])), float(sampling.of_mean(errors[finite])))
