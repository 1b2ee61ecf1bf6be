# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The tables of a run, with the papers' numbers beside them where the run measured the same model."""

from __future__ import annotations

from taugrid_analysis import comparison, published
from taugrid_analysis.results import Results
from taugrid_analysis.tables import cost, edits, kernel, pairs, tasks
from taugrid_analysis.text_table import Table


def all_tables(results: Results, by_pair: bool = False) -> list[Table]:
    """Those whose groups are in the file, in the order in which one reads them."""
    identity = published.identify(results)
    found = [
        edits.addition(results, identity),
        edits.sensitivity(results),
        edits.pair_addition(results),
        edits.multitask(results),
        edits.negation(results),
        tasks.single_task(results),
        tasks.advantage(results),
        tasks.kernel_behaviour(results),
        tasks.similarity(results),
        pairs.tau_jp(results),
        pairs.disentanglement(results),
        pairs.representation(results),
        pairs.predictor_table(results),
        kernel.smoothness(results),
        kernel.localisation(results),
        kernel.spectrum(results),
        pairs.continuation(results),
        cost.cost(results),
    ]
    if by_pair:
        found.append(pairs.pairs(results))
    tables = [table for table in found if table.rows]
    return tables + (comparison.orientation(results, identity) if identity.key is None else [])
