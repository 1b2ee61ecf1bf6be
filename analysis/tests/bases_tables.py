# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The bases paper's tables beside a run, and their columns."""

from __future__ import annotations

from pathlib import Path

from taugrid_analysis.page.table import Table
from taugrid_analysis.papers.bases.tables import tables as paper_tables
from taugrid_analysis.run.opened import Run


def tables_by_name(path: Path) -> dict[str, Table]:
    with Run(path) as run:
        return {table.name: table for table in paper_tables(run)}


def column(table: Table, name: str) -> dict[str, object]:
    place = [column.name for column in table.columns].index(name)
    return {str(row[0]): row[place] for row in table.rows}
