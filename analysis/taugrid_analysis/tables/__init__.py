# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The tables of a run, with the papers' numbers beside them where the run measured the same model."""

from __future__ import annotations

from taugrid_analysis import comparison, published
from taugrid_analysis.run import Run
from taugrid_analysis.tables import (
    bases,
    choices,
    cost,
    edits,
    generation,
    groups,
    interference,
    kernel,
    lacking,
    linearity,
    merging,
    negation,
    pairs,
    partitions,
    penalty,
    signs,
    similarities,
    subsets,
    tasks,
    transitivity,
    variants,
)
from taugrid_analysis.text_table import Table


def all_tables(run: Run, by_pair: bool = False) -> list[Table]:
    """Those whose groups are in the file, in the order in which one reads them."""
    identity = published.identify(run.results)
    found = [
        edits.addition(run, identity),
        edits.sensitivity(run),
        tasks.against_standard(run),
        penalty.penalty([run]),
        merging.merging(run),
        choices.choices(run),
        merging.masks(run),
        bases.bases(run),
        partitions.ranks(run),
        partitions.every_partition(run),
        partitions.negation(run),
        similarities.low_rank(run),
        bases.negation(run),
        bases.transfer(run),
        similarities.mixed(run),
        subsets.subsets(run),
        edits.pair_addition(run),
        edits.multitask(run),
        negation.negation(run),
        negation.intervals(run),
        generation.generation(run),
        tasks.single_task(run),
        variants.variants(run),
        tasks.advantage(run),
        tasks.kernel_behaviour(run),
        tasks.similarity(run),
        groups.groups(run),
        signs.signs(run),
        similarities.early(run),
        signs.gaps(run),
        pairs.tau_jp(run),
        pairs.disentanglement(run),
        pairs.representation(run),
        linearity.linearity(run),
        linearity.edits(run),
        linearity.of_averages(run),
        transitivity.transitivity(run),
        linearity.averages(run),
        linearity.stitching(run),
        *([linearity.barrier(run)] if run.results.names("barrier") else []),
        interference.predictor_table(run),
        interference.bound_table(run),
        interference.other_bounds_table(run),
        kernel.smoothness(run),
        kernel.localisation(run),
        kernel.spectrum(run),
        pairs.continuation(run),
        cost.cost(run),
    ]
    if by_pair:
        found.append(pairs.pairs(run))
    found.append(lacking.lacking(run))
    tables = [table for table in found if table.rows]
    return tables + (comparison.orientation(run, identity) if identity.key is None else [])
