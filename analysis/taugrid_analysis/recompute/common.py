# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the checks of several quantities share: whose points a group is measured on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from taugrid_analysis.files import text
from taugrid_analysis.recompute.checks import Check, Place, Reading, places
from taugrid_analysis.recompute.oracle import Oracle


def each_place(
    oracle: Oracle, group: str, variable: str, again: Callable[[Place], Reading], most: int = 10**9
) -> Iterator[Check]:
    every = places(oracle, group, variable)
    if every:
        yield Check(group, variable, every, again, most)


def split_of(oracle: Oracle, group: str, regime: str) -> str:
    """Whose points: as the group says, or the grid of predictions beside it."""
    for name in (group, "disentanglement"):
        node = oracle.results.get(f"{name}/{regime}")
        if node is not None and "split" in node.attrs and group in ("disentanglement", "representation"):
            return text(node.attrs["split"])
    return "test"
