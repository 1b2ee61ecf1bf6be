# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The tables of the τJp paper: a line a printed number, this run's beside it."""

from __future__ import annotations

from taugrid_analysis.page.table import Table
from taugrid_analysis.papers import comparison
from taugrid_analysis.run.opened import Run


def tables(run: Run) -> list[Table]:
    return comparison.of_regimes(run, "tau_jp")
