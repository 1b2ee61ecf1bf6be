# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A ratio from the logarithms of its samples, and p of several tests together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.numbers.sampling import LEVEL


@dataclass(frozen=True)
class Ratio:
    """The geometric mean, Student's interval, and p of no difference; NaN of one sample but for the mean."""

    value: float
    low: float
    high: float
    p: float


def of_logs(logs: Floats) -> Ratio:
    from scipy import stats  # loaded where it is needed: --help does without

    value, count = float(logs.mean()), len(logs)
    if count < 2:
        return Ratio(float(np.exp(value)), float("nan"), float("nan"), float("nan"))
    error = float(logs.std(ddof=1) / np.sqrt(count))
    reach = float(stats.t.ppf((1 + LEVEL) / 2, count - 1)) * error
    p = float(2 * stats.t.sf(abs(value) / error, count - 1)) if error > 0 else float(value == 0)
    low, high = (float(np.exp(end)) for end in (value - reach, value + reach))
    return Ratio(float(np.exp(value)), low, high, p)


def holm(chances: list[float]) -> list[float]:
    """p of several tests, so that the chance of any false one among them is no more than each says: the
    least p times the number of tests, the next times one less, and so on (Holm 1979, A simple sequentially
    rejective multiple test procedure)."""
    corrected, most = [0.0] * len(chances), 0.0
    for rank, place in enumerate(np.argsort(chances, kind="stable").tolist()):
        most = max(most, min(1.0, (len(chances) - rank) * chances[place]))
        corrected[place] = most
    return corrected
