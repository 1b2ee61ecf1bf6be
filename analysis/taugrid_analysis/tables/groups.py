# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cosines of task vectors within the natural groups of tasks, and across them."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import measures, task_groups
from taugrid_analysis.run import Run
from taugrid_analysis.text_table import Column, Table


def groups(run: Run) -> Table:
    table = Table(
        "groups",
        "Natural groups of tasks: mean cosine of task vectors",
        [
            Column("regime"),
            Column("group"),
            Column("tasks"),
            Column("within", 3),
            Column("to other groups", 3),
        ],
    )
    named = np.array(run.results.groups)
    kinds = list(dict.fromkeys(run.results.groups))
    if len(kinds) < 2:
        return table
    for regime in run.results.names("similarity"):
        data = run.data("similarity", regime)
        assert data is not None
        cosine = data["cosine"].to_numpy().astype(float)
        same = named[:, None] == named[None, :]
        for kind in kinds:
            own = named == kind
            table.rows.append(
                [
                    regime,
                    kind or "none",
                    int(own.sum()),
                    measures.mean(measures.off_diagonal(cosine[np.ix_(own, own)])),
                    measures.mean(cosine[np.ix_(own, ~own)]),
                ]
            )
        within = same & ~np.eye(len(named), dtype=bool)
        table.rows.append(
            [
                regime,
                "all",
                len(named),
                measures.mean(cosine[within]),
                measures.mean(cosine[~same]),
            ]
        )
        found = task_groups.clusters(cosine, len(kinds))
        agreement = measures.rand_index(found.labels, np.unique(named, return_inverse=True)[1])
        table.notes.append(
            f"{regime}: {len(kinds)} clusters by average linkage of 1 − |cosine| agree with the groups by an"
            f" adjusted Rand index of {agreement:.2f} (1: the same, 0: chance)."
        )
    table.notes.append(
        "Tasks of one group may share the words of their heads, which alone makes their vectors alike."
    )
    return table
