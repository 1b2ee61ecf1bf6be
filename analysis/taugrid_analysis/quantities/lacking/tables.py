# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a file of an older schema does not hold."""

from __future__ import annotations

from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.run.opened import Run


def lacking(run: Run) -> Table:
    table = Table(
        "lacking",
        f"Numbers that this results.h5 (schema {run.results.schema}) lacks",
        [Column("number"), Column("of R ="), Column("what follows")],
    )
    for lack in run.missing:
        table.rows.append([lack.path, ", ".join(lack.regimes), lack.follows])
    return table


TABLES = {"lacking": lacking}
