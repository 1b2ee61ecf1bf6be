# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What predicts a merge's outcome for tasks that the prediction has not seen: pairs, subsets, methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from taugrid_analysis.numbers import prediction
from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.prediction import Prediction
from taugrid_analysis.quantities.predictors import lines
from taugrid_analysis.run.opened import Run
from taugrid_analysis.run.regimes import ordered


@dataclass(frozen=True)
class Row:
    regime: str
    merges: str  # what was merged, and by which method
    predictor: str
    prediction: Prediction


def _matrix(run: Run, values: Floats) -> Floats:
    """Numbers of pairs [P] as a symmetric [T,T]."""
    count = len(run.results.tasks)
    matrix = np.full((count, count), np.nan)
    for (i, j), value in zip(run.results.pairs, values, strict=True):
        matrix[i, j] = matrix[j, i] = value
    return matrix


def _outcomes(run: Run, regime: str) -> Iterator[tuple[str, Array | None, Floats]]:
    """Names, members [N,T] (None: each task of one merge of all) and normalised accuracies."""
    count = len(run.results.tasks)
    if regime in run.pairs.index.get_level_values("regime"):
        member = np.zeros((len(run.results.pairs), count), dtype=bool)
        for row, (i, j) in enumerate(run.results.pairs):
            member[row, [i, j]] = True
        yield "pairs, sum", member, np.asarray(run.pairs.loc[regime]["normalized"], dtype=float)
    subsets = run.data("subsets", regime)
    if subsets is not None:
        name = f"subsets, {subsets.attrs['merge']}"
        yield name, subsets["sets"].to_numpy().astype(bool), subsets["normalized"].to_numpy()
    alone = run.data("single_task", regime)
    for method in run.results.names("merging"):
        merged = run.results.data("merging", f"{method}/{regime}")
        if merged is not None and alone is not None:
            accuracy = alone["accuracy"].to_numpy()
            yield (
                f"all tasks, {method}",
                None,
                merged["accuracy"].to_numpy() / np.where(accuracy > 0, accuracy, np.nan),
            )


@lru_cache(maxsize=4)
def rows(run: Run) -> list[Row]:
    entries = []
    if not len(run.pairs):
        return []
    for regime in ordered(set(run.pairs.index.get_level_values("regime"))):
        known = {
            name: _matrix(run, x) for name, x in lines.predictors(run, regime).items() if name in lines.TITLES
        }
        for merges, member, outcome in _outcomes(run, regime):
            for name, pairs in known.items():
                estimate = (
                    prediction.tasks(outcome, pairs)
                    if member is None
                    else prediction.merges(member, outcome, pairs)
                )
                if estimate is not None:
                    entries.append(Row(regime, merges, name, estimate))
    return entries
