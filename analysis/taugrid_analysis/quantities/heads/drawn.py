# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""θ0 read by classifiers before any training: what the tangent-space paper's table 5 begins with."""

from __future__ import annotations

from taugrid_analysis.numbers import sampling
from taugrid_analysis.numbers.measured import Measured, measured_mean
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.results import Results


def accuracy(results: Results) -> Measured | None:
    """The mean over tasks; None where classifiers were not trained with the body, from a random start."""
    data = results.data("heads", results.start)
    if data is None or "drawn_accuracy" not in data:
        return None
    shares = data["drawn_accuracy"].to_numpy()
    single = accuracies.accuracies(results, "single_task", results.start, "accuracy")  # of the same points
    return measured_mean(shares, sampling.binomial(shares, single.points if single is not None else 0))
