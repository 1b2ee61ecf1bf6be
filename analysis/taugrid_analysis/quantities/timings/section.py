# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of where the time and the energy went."""

from __future__ import annotations

import pandas as pd

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.timings import figures
from taugrid_analysis.run.opened import Run

CAPTION = "Seconds of the work units of each rank, by kind. Waiting is not in the bars."
COUNTED = (
    " Below, their joules ({sources}): what the counters of host and GPU went on by, over the ranks that"
    " share them, so that no joule is in two bars. What was idle, and what others did there, is in them."
)


def timings(run: Run) -> pd.DataFrame:
    """Sums a rank and kind; joules where something counted them."""
    units = pd.DataFrame(
        [(unit.rank, unit.kind, unit.seconds, unit.joules) for unit in run.results.units()],
        columns=["rank", "kind", "seconds", "joules"],
    )
    sums = units.groupby(["rank", "kind"], as_index=False, sort=False).sum(min_count=1)
    return sums if sums["joules"].notna().any() else sums.drop(columns="joules")


def sections(run: Run) -> list[Part]:
    sources = sorted({unit.energy_source for unit in run.results.units() if unit.energy_source})
    return [
        Part(
            "timings",
            "Where the time and the energy went" if sources else "Where the time went",
            "units",
            CAPTION + (COUNTED.format(sources=", ".join(sources)) if sources else ""),
            [figures.timings(run), figures.energy(run)],
            {"timings.csv": lambda: timings(run)},
        ),
    ]
