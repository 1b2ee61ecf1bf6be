# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the Gram matrix of task vectors tells: clusters on the way of training, bases without clusters."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import accuracies, measures, outcomes
from taugrid_analysis.correlation import rank_correlation
from taugrid_analysis.records import Floats
from taugrid_analysis.run import Run
from taugrid_analysis.tables.bases import members
from taugrid_analysis.tables.cells import SAMPLE
from taugrid_analysis.text_table import Column, Table

SUMS = ("bases", "recovered")


def early(run: Run) -> Table:
    """Similarity of the vectors on the way (figure 9)."""
    results = run.results
    table = Table(
        "early_similarity",
        f"Similarity of {len(results.tasks)} task vectors on the way of their training",
        [
            Column("regime"),
            Column("after"),
            Column("steps"),
            Column("mean norm", 3),
            Column("mean |cosine|", 3),
            Column("gap at k", 4),
            Column("rank corr. with the end", 2),
            Column("k"),
            Column("Rand index", 2),
            Column("clusters"),
        ],
    )
    for regime in results.names("early_similarity"):
        data = results.data("early_similarity", regime)
        assert data is not None
        marks = str(data.attrs["marks"]).split(", ")
        cosine = data["cosine"].to_numpy().astype(float)
        last = measures.off_diagonal(np.abs(cosine[-1]))
        for place, mark in enumerate(marks):
            steps = data["updates"].to_numpy()[place].astype(int)
            now = measures.off_diagonal(np.abs(cosine[place]))
            k, values = int(data["chosen_clusters"][place]), data["eigenvalues"].to_numpy()[place]
            table.rows.append(
                [
                    regime,
                    mark,
                    f"{steps.min()}" if steps.min() == steps.max() else f"{steps.min()} to {steps.max()}",
                    float(data["norm"][place].mean()),
                    float(now.mean()) if len(now) else None,
                    float(values[k] - values[k - 1]) if k < len(values) else None,
                    rank_correlation(now, last) if len(now) > 2 else None,
                    f"{k}",
                    float(data["rand_index"][place]),
                    members(data["labels"].to_numpy()[place].astype(int), results.tasks),
                ]
            )
    if table.rows:
        table.notes.append(
            "k: by the largest gap of the Laplacian's eigenvalues; the table gaps has all of them. Rand"
            " index: of the clusters and those at the end, corrected for chance. Rank correlation:"
            " Spearman's, of |cosine| over pairs of tasks."
        )
    return table


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
                mean = outcomes.measured_mean(
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
            [measures.off_diagonal(cosine[:count, :count]), measures.off_diagonal(cosine[count:, count:])]
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
    return float(np.abs(measures.off_diagonal(cosine[:count, count:])).mean())


def _other(run: Run, regime: str) -> str:
    data = run.results.data("mixed_starts", regime)
    assert data is not None
    return str(data.attrs["other"]).rstrip("/").split("/")[-1]


def low_rank(run: Run) -> Table:
    """Bases by an autoencoder and by principal components."""
    results = run.results
    table = Table(
        "low_rank",
        f"Bases without clusters of {len(results.tasks)} task vectors, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("method"),
            Column("bases"),
            Column("lost", 1, percent=True),
            *(
                column
                for name in SUMS
                for column in (Column(f"{name}, alpha"), Column(name, 1, percent=True))
            ),
        ],
    )
    for regime in results.names("low_rank"):
        data = results.data("low_rank", regime)
        assert data is not None
        for q, method in enumerate(str(data.attrs["methods"]).split(", ")):
            for row, bases in enumerate(data["bases"].to_numpy().astype(int)):
                values = [
                    float(data[name][q, row, place])
                    for place in range(len(SUMS))
                    for name in ("coefficient", "normalized")
                ]
                table.rows.append([regime, method, f"{bases}", float(data["error"][q, row]), *values])
    if table.rows:
        table.notes.append(
            "lost: ‖V − V̂‖² / ‖V‖² of the vectors that are made of the bases again. bases: normalized"
            " accuracy of θ0 + α times their sum, α by validation; recovered: of the sum of the vectors made"
            " again, which of principal components is that of the vectors themselves."
        )
    return table
