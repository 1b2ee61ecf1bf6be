# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of where the time went."""

from __future__ import annotations

import pandas as pd

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.timings import figures
from taugrid_analysis.run.opened import Run


def timings(run: Run) -> pd.DataFrame:
    units = pd.DataFrame(
        [(one.rank, one.kind, one.seconds) for one in run.results.units()],
        columns=["rank", "kind", "seconds"],
    )
    return units.groupby(["rank", "kind"], as_index=False, sort=False).sum()


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "timings",
            "Where the time went",
            "units",
            "Seconds of the work units of each rank, by kind. Waiting is not in the bars.",
            [figures.timings(run)],
            {"timings.csv": lambda: timings(run)},
        ),
    ]
