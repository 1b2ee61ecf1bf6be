# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Any table of runs that differ by their seed alone: means over the seeds, with what the seeds spread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.table import Table, Value, beginning
from taugrid_analysis.page.tables import all_tables
from taugrid_analysis.run import several_seeds
from taugrid_analysis.run.opened import Run


def tables(runs: Sequence[Run], names: Sequence[str]) -> list[Table]:
    """The tables of these names, each number the mean over the runs ± the deviation over √seeds.

    Raises InputError where two runs have one seed, or differ by more than that, and where one lacks a table.
    """
    if len(runs) < 2:
        raise InputError("one run", "seeds", "two runs or more, each of another seed")
    seeds = several_seeds.seeds(runs)
    by_run = [{table.name: table for table in all_tables(run, by_pair="pairs" in names)} for run in runs]
    for name in names:
        for run, known in zip(runs, by_run, strict=True):
            if name not in known:
                raise InputError(f"no table {name}", run.path, f"one of {', '.join(known)}")
    return [mean([known[name] for known in by_run], seeds) for name in names]


def mean(same: Sequence[Table], seeds: Sequence[str]) -> Table:
    """Rows that begin with the same words, whatever their place."""
    first = same[0]
    keyed = [_keyed(table) for table in same]
    shared = [key for key in keyed[0] if all(key in other for other in keyed[1:])]
    rows = [
        [_cell(list(cells)) for cells in zip(*(rows[key] for rows in keyed), strict=True)] for key in shared
    ]
    notes = [
        f"Mean over seeds {', '.join(seeds)}; ±: the deviation over √seeds, evaluation sample and training."
    ]
    if (most := max(len(rows) for rows in keyed)) > len(shared):
        notes.append(f"{most - len(shared)} further rows are not there in every seed.")
    return Table(first.name, f"{first.title}: mean over {len(seeds)} seeds", list(first.columns), rows, notes)


def _keyed(table: Table) -> dict[tuple[Value, ...], list[Value]]:
    """Each row by the words that it begins with, and how many rows before it began so."""
    rows: dict[tuple[Value, ...], list[Value]] = {}
    for row in table.rows:
        words = tuple(beginning(row))
        again = sum(key[:-1] == words for key in rows)
        rows[(*words, again)] = row
    return rows


def _cell(cells: list[Value]) -> Value:
    if all(cell == cells[0] for cell in cells):
        return float(cells[0]) if isinstance(cells[0], Measured) else cells[0]
    if any(isinstance(cell, str) for cell in cells):
        return " / ".join(str("–" if cell is None else cell) for cell in cells)
    numbers = np.array([np.nan if cell is None else float(cell) for cell in cells])
    if not np.isfinite(numbers).all():  # a mean over some seeds would be read as one over all
        return None
    if np.ptp(numbers) <= 1e-12 * np.abs(numbers).max():  # the same number, summed in another order
        return float(numbers.mean())
    return Measured(float(numbers.mean()), float(numbers.std(ddof=1) / np.sqrt(len(numbers))))
