# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What is measured of the cross-task linearity paper, which prints figures and three numbers."""

from __future__ import annotations

from taugrid_analysis.page.table import Table
from taugrid_analysis.quantities.averages.tables import averages
from taugrid_analysis.quantities.barrier.tables import barrier
from taugrid_analysis.quantities.linearity.tables import edits, linearity, of_averages, transitivity
from taugrid_analysis.quantities.stitching.tables import stitching
from taugrid_analysis.quantities.variants.tables import variants
from taugrid_analysis.run.opened import Run

MADE = (linearity, edits, of_averages, transitivity, variants, averages, stitching, barrier)


def tables(run: Run) -> list[Table]:
    return [table for make in MADE if (table := make(run)).rows]
