# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Vectors of two pre-trained models."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers import means, measured
from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.page.cells import SAMPLE
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.opened import Run

KINDS = ("own", "half", "other", "across")  # of vectors, as /mixed_starts has them


def mixed(run: Run) -> Table:
    """Vectors of two pre-trained models, added to either (table 2)."""
    results = run.results
    kinds = {
        "own": "its own, τ",
        "half": "half of each",
        "other": "the other's",
        "across": "the other's models, seen from here",
    }
    table = Table(
        "mixed_starts",
        f"Vectors of {len(results.tasks)} tasks from two pre-trained models, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("added to"),
            Column("vectors"),
            Column("mean norm", 3),
            Column("alpha"),
            Column("absolute", 1, percent=True),
            Column("normalized", 1, percent=True),
            Column("θ0", 1, percent=True),
            Column("each alone", 1, percent=True),
        ],
    )
    for regime in results.names("mixed_starts"):
        data = results.data("mixed_starts", regime)
        test = accuracies.accuracies(results, "mixed_starts", regime, "accuracy")
        assert data is not None and test is not None
        count, norm, across = len(results.tasks), data["norm"].to_numpy(), data["across_norm"].to_numpy()
        for start, model in enumerate(("first", "second")):
            mine, theirs = (norm[place * count : (place + 1) * count].mean() for place in (start, 1 - start))
            far = across[(1 - start) * count : (2 - start) * count].mean()
            lengths = {"own": mine, "other": theirs, "across": far}
            for place, kind in enumerate(KINDS):
                mean = measured.measured_mean(
                    test.value.to_numpy()[start, place].astype(float), test.error[start, place]
                )
                table.rows.append(
                    [
                        regime,
                        model,
                        kinds[kind],
                        float(lengths[kind]) if kind in lengths else None,
                        float(data["coefficient"][start, place]),
                        mean,
                        float(data["normalized"][start, place]),
                        float(data["start_accuracy"][start].mean()),
                        float(data["own_accuracy"][start].mean()),
                    ]
                )
        cosine = data["cosine"].to_numpy().astype(float)
        same = np.concatenate(
            [means.off_diagonal(cosine[:count, :count]), means.off_diagonal(cosine[count:, count:])]
        )
        first, second = (float(norm) for norm in data["start_norm"])
        pairs = np.diagonal(cosine[:count, count:]).mean()
        table.notes.append(
            f"{regime}: the two θ0 are {float(data['distance']):.3g} apart, of norms {first:.3g} and"
            f" {second:.3g}. Mean |cosine| of two tasks' vectors from one θ0 {np.abs(same).mean():.3f}, from"
            f" two {_across(cosine, count):.3f}; cosine of one task's two vectors {pairs:+.3f}, in the mean."
        )
    if table.rows:
        table.notes += [
            f"The second: {', '.join(sorted({_other(run, name) for name in results.names('mixed_starts')}))}."
            " θ0 + α Σ v, α by validation; seen from here, v = θ′ − θ0 holds the way to the other θ0, once a"
            " task: α = 1/T leads to the mean of the other's models, α = 0 is θ0.",
            SAMPLE,
        ]
    return table


def _across(cosine: Floats, count: int) -> float:
    return float(np.abs(means.off_diagonal(cosine[:count, count:])).mean())


def _other(run: Run, regime: str) -> str:
    data = run.results.data("mixed_starts", regime)
    assert data is not None
    return str(data.attrs["other"]).rstrip("/").split("/")[-1]


TABLES = {"mixed_starts": mixed}
