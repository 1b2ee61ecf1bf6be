# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Columns of a frame, gathered from the quantities: each quantity's columns.py tells what it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from taugrid_analysis import quantities
from taugrid_analysis.run.results import Results


def gathered(kind: str, results: Results, regime: str, order: Sequence[str]) -> dict[str, Any]:
    """What every quantity's function of this kind, such as of_pairs, gives. Others than `order` are last."""
    columns: dict[str, Any] = {}
    for _, module in quantities.modules("columns"):
        if hasattr(module, kind):
            columns |= getattr(module, kind)(results, regime)
    return ordered(columns, order)


def ordered(columns: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
    return {name: columns[name] for name in [*(name for name in order if name in columns), *columns]}
