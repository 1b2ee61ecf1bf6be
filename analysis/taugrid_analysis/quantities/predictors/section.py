# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of what predicts interference."""

from __future__ import annotations

from matplotlib.figure import Figure

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.predictors import figures
from taugrid_analysis.run.opened import Run


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "predictors",
            "What predicts interference",
            "pair_addition",
            "Above: each pair's τJp and the normalised accuracy of its sum. Below: rank correlation of each"
            " predictor with that accuracy, and with the pair's loss gap; lines span what leaving out any one"
            " task gives. Filled: permutations of the tasks reach the value, for the best of the predictors"
            " and outcomes, in fewer than 5 %."
            " Below the dashed line stands ξ, another measure of the same thing. All numbers are in the table"
            " of predictors.",
            [_products(run), figures.forest(run)],
            {"pairs.csv": lambda: run.pairs.reset_index()},
        ),
    ]


def _products(run: Run) -> Figure | None:
    return figures.scatter(run, run.results.names("pair_addition"), figures.accuracies(run))
