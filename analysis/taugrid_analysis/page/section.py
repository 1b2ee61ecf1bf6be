# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a section of the report is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

Sheet = Callable[[], pd.DataFrame] | str  # a str: made on the page from the maps whose keys begin with it


class Part(NamedTuple):
    """What a section is made of; group: of results.h5. No picture where the run has not the numbers."""

    anchor: str
    title: str
    group: str
    caption: str
    pictures: list[Figure | None]
    files: dict[str, Sheet]

    @property
    def drawn(self) -> list[Figure]:
        return [picture for picture in self.pictures if picture is not None]


def columns(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """These columns and their errors, of rows that have any of them."""
    wanted = [column for name in names for column in (name, f"{name}_error") if column in frame.columns]
    return frame[wanted].dropna(how="all").reset_index()
