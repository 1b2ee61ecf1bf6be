# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Task vector bases by number of clusters, spectral partitions beside random ones (paper 2)."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.records import Array
from taugrid_analysis.run import Run
from taugrid_analysis.text_table import Column, Table


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
        ],
    )
    methods = set()
    for regime in results.regimes:
        data = results.data("bases", regime)
        if data is None:
            continue
        methods.add((str(data.attrs["merge_in"]), str(data.attrs["merge_out"])))
        chosen = int(data["chosen_clusters"])
        for row, k in enumerate(data["clusters"].to_numpy().astype(int)):
            every = data["normalized"].to_numpy()[row]
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
                ]
            )
    if table.rows:
        inside, outside = methods.pop()
        table.notes += [
            f"Clusters' vectors merged by {inside}, bases by {outside}; α chosen on validation. *: chosen by"
            " the largest gap of the Laplacian's eigenvalues. random: mean, deviation and best of partitions"
            " into clusters of the same sizes; as good: those that reach the spectral one. One run: its seed"
            " and sample are shared by all rows.",
        ]
    return table


def members(labels: Array, tasks: list[str]) -> str:
    """Clusters as lists of tasks."""
    of = dict(zip(tasks, labels.tolist(), strict=True))
    found = [[name for name in tasks if of[name] == c] for c in range(max(of.values()) + 1)]
    return " | ".join(" ".join(cluster) for cluster in found)


def _control(random: Array) -> tuple[float | None, float | None, float | None]:
    if not len(random):
        return None, None, None
    deviation = float(random.std(ddof=1)) if len(random) > 1 else None
    return float(random.mean()), deviation, float(random.max())
