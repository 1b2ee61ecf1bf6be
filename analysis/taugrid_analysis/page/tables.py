# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The tables of a run, with the papers' numbers beside them where the run measured the same model."""

from __future__ import annotations

from taugrid_analysis import quantities
from taugrid_analysis.page.table import Table
from taugrid_analysis.papers import comparison, published
from taugrid_analysis.quantities.pairs.tables import pairs
from taugrid_analysis.run.opened import Run

ORDER = (  # in which one reads them; tables that are not named come last
    *("addition", "sensitivity", "differences", "penalty", "merging", "choices", "masks"),
    *("bases", "partition_ranks", "every_partition", "partition_negation", "low_rank", "basis_negation"),
    *("basis_transfer", "mixed_starts", "subsets", "pair_addition", "multitask"),
    *("negation", "negation_intervals", "generation", "single_task", "variants", "advantage"),
    *("kernel_behaviour", "similarity", "layer_similarity", "groups", "sign_conflict", "early_similarity"),
    "compression",
    *("gaps", "tau_jp", "disentanglement", "representation", "linearity", "layer_edits", "layer_averages"),
    *(
        "transitivity",
        "averages",
        "stitching",
        "barrier",
        "predictors",
        "merge_predictors",
        "bound",
        "other_bounds",
    ),
    *("smoothness", "ntk", "ntk_spectrum", "continuation", "cost"),
)


def all_tables(run: Run, by_pair: bool = False) -> list[Table]:
    """The tables whose groups are in the file. by_pair: also one line for every pair of tasks."""
    identity = published.identify(run.results)
    make = {
        name: table
        for _, module in quantities.modules("tables")
        for name, table in getattr(module, "TABLES", {}).items()
    }
    names = [*(name for name in ORDER if name in make), *sorted(set(make) - set(ORDER) - {"lacking"})]
    tables = [make[name](run) for name in names]
    if by_pair:
        tables.append(pairs(run))
    tables.append(make["lacking"](run))
    shown = [table for table in tables if table.rows]
    if identity.key is None:
        return shown + comparison.orientation(run, identity)
    for table in shown:
        if table.name == "addition":
            comparison.add_published(table, run, identity)
    return shown
