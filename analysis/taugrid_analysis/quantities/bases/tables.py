# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Task vector bases by number of clusters, spectral partitions beside random ones (paper 2)."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers import sampling
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.measured import Measured, measured_mean
from taugrid_analysis.page.cells import SAMPLE, largest_tried
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.quantities.bases import partitions
from taugrid_analysis.quantities.bases.ranks import ranks
from taugrid_analysis.quantities.negation import forgetting
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.opened import Run


def bases(run: Run) -> Table:
    results = run.results
    table = Table(
        "bases",
        f"Task vector bases: {len(results.tasks)} vectors in k clusters, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("k"),
            Column("spectral clusters"),
            Column("alpha"),
            Column("absolute", 1, percent=True),
            Column("normalized", 1, percent=True),
            Column("random", 1, percent=True),
            Column("deviation", 1, percent=True),
            Column("best", 1, percent=True),
            Column("as good"),
            Column("stored, MB", 2),
        ],
    )
    methods, left_out, by_code = set(), {}, []
    for regime in results.regimes:
        data = results.data("bases", regime)
        if data is None:
            continue
        methods.add((str(data.attrs["merge_in"]), str(data.attrs["merge_out"])))
        chosen = int(data["chosen_clusters"])
        held = partitions.merged(data)
        if not held.all():
            left_out[regime] = [name for name, kept in zip(results.tasks, held, strict=True) if not kept]
        cosine = data["cosine"].to_numpy()[np.ix_(held, held)]
        by_code.append(f"{regime} {partitions.chosen_by_code(cosine)}")
        for row, k in enumerate(data["clusters"].to_numpy().astype(int)):
            every = data["normalized"].to_numpy()[row]
            if not np.isfinite(every[0]):  # fewer tasks are left than k
                continue
            random = every[1:][np.isfinite(every[1:])]
            table.rows.append(
                [
                    regime,
                    f"{k} *" if k == chosen else f"{k}",
                    members(data["labels"].to_numpy()[row, 0], results.tasks),
                    float(data["coefficient"].to_numpy()[row, 0]),
                    float(data["absolute"].to_numpy()[row, 0]),
                    float(every[0]),
                    *_control(random),
                    f"{int((random >= every[0]).sum())} of {len(random)}" if len(random) else None,
                    float(data["bytes"].to_numpy()[row, 0]) / 1e6 if "bytes" in data else None,
                ]
            )
    if table.rows:
        inside, outside = methods.pop()
        table.notes += [
            f"Clusters' vectors merged by {inside}, bases by {outside}; α chosen on validation. *: chosen by"
            " the largest gap of the Laplacian's eigenvalues. random: mean, deviation and best of partitions"
            " into clusters of the same sizes; as good: those that reach the spectral one. One run: its seed"
            " and sample are shared by all rows.",
            *largest_tried(
                {name: data for name in results.names("bases") if (data := results.data("bases", name))}
            ),
            "The paper's code takes cosines with their signs and the largest of all gaps, so that one cluster"
            f" is possible. It would have chosen k: {', '.join(by_code)}.",
            *told_of_filter(left_out),
        ]
    return table


def told_of_filter(left_out: dict[str, list[str]]) -> list[str]:
    """left_out: tasks by regime."""
    return [
        f"Left out of {regime}, since their own models do not beat the majority vote on validation points:"
        f" {', '.join(tasks)}."
        for regime, tasks in left_out.items()
    ]


def members(labels: Array, tasks: list[str]) -> str:
    """Clusters as lists of tasks."""
    of = dict(zip(tasks, labels.tolist(), strict=True))
    clusters = [[name for name in tasks if of[name] == c] for c in range(max(of.values()) + 1)]
    return " | ".join(" ".join(cluster) for cluster in clusters)


def _control(random: Array) -> tuple[float | None, float | None, float | None]:
    if not len(random):
        return None, None, None
    deviation = float(random.std(ddof=1)) if len(random) > 1 else None
    return float(random.mean()), deviation, float(random.max())


def negation(run: Run) -> Table:
    """θ0 − αB with the basis nearest to a task, beside θ0 − ατ where that was measured (paper 2, table 6)."""
    results = run.results
    table = Table(
        "basis_negation",
        f"Negation by bases: θ0 − α B for each of {len(results.tasks)} tasks, test accuracy, mean over tasks",
        [
            Column("regime"),
            Column("vectors kept"),
            Column("mean alpha"),
            Column("target", 1, percent=True),
            Column("control", 1, percent=True),
            Column("control kept"),
        ],
    )
    floor = set()
    again = results.by_method("low_rank_negation")
    for regime in dict.fromkeys([*results.names("basis_negation"), *(name.split("/")[1] for name in again)]):
        vectors = []
        if (data := results.data("basis_negation", regime)) is not None:
            floor.add(float(data.attrs["control_threshold"]))
            of_bases = forgetting.forgetting(results, regime, group="basis_negation")
            vectors.append((f"{int(data['labels'].max()) + 1}", of_bases))
        for name in again:
            key, _, data_regime = name.partition("/")
            if data_regime == regime:
                method, _, count = key.rpartition("-")
                low_rank = results.data("low_rank_negation", name)
                assert low_rank is not None
                floor.add(float(low_rank.attrs["control_threshold"]))
                negated = forgetting.forgetting(results, name, group="low_rank_negation")
                vectors.append((f"{count}, τ again by {method}", negated))
        if (of_tasks := forgetting.forgetting(results, regime, wide=True)) is not None:
            vectors.append((f"{len(results.tasks)}, τ itself", of_tasks))
        for kept, negated in vectors:
            assert negated is not None
            table.rows.append(
                [
                    regime,
                    kept,
                    negated.alpha,
                    negated.target,
                    negated.control,
                    f"{negated.kept} of {len(results.tasks)}",
                ]
            )
    if table.rows:
        table.notes += [
            "Each task's basis is the one with the largest cosine. α: least target accuracy on validation"
            f" with at least {100 * max(floor):g} % of θ0's control accuracy.",
            SAMPLE,
        ]
    return table


def transfer(run: Run) -> Table:
    """Each task with the nearest basis of the others' vectors (paper 2, table 7)."""
    results = run.results
    table = Table(
        "basis_transfer",
        "Held-out tasks: θ0 + α B, B of the other tasks' vectors, test accuracy",
        [
            Column("regime"),
            Column("held out"),
            Column("nearest basis"),
            Column("cosine", 2),
            Column("found"),
            Column("θ0", 1, percent=True),
            Column("α = 1", 1, percent=True),
            Column("alpha"),
            Column("tuned", 1, percent=True),
            Column("other bases", 1, percent=True),
        ],
    )
    threshold = set()
    for regime in results.names("basis_transfer"):
        data = results.data("basis_transfer", regime)
        every = accuracies.accuracies(results, "basis_transfer", regime, "test_accuracy")
        assert data is not None and every is not None
        threshold.add(float(data.attrs["threshold"]))
        for t, task in enumerate(results.tasks):
            labels, nearest = data["labels"].to_numpy()[t], int(data["nearest"][t])
            points = int(every.points[t, nearest, 0])
            table.rows.append(
                [
                    regime,
                    task,
                    " ".join(name for name, c in zip(results.tasks, labels, strict=True) if c == nearest),
                    float(data["cosine"][t, nearest]),
                    "yes" if int(data["found"][t]) else "no",
                    *(_share(float(data[name][t]), points) for name in ("pretrained", "one_shot")),
                    float(data["chosen_alpha"][t]),
                    *(_share(float(data[name][t]), points) for name in ("accuracy", "others")),
                ]
            )
        counts = every.points[:, 0, 0]
        start, one_shot, tuned, others = (
            measured_mean(values, sampling.binomial(values, counts))
            for values in (
                data[name].to_numpy().astype(float)
                for name in ("pretrained", "one_shot", "accuracy", "others")
            )
        )
        table.rows.append([regime, "mean", "", None, "", start, one_shot, None, tuned, others])
    if table.rows:
        table.notes += [
            f"found: a cosine of {max(threshold):g} or more. α by validation points of the held-out task."
            " other bases: their mean, each at its own α, which is what any other basis does.",
            SAMPLE,
        ]
    return table


def _share(value: float, points: int) -> Measured:
    return Measured(value, float(sampling.binomial(value, points)))


TABLES = {"bases": bases, "partition_ranks": ranks, "basis_negation": negation, "basis_transfer": transfer}
