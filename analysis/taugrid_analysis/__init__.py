# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Finished taugrid runs as pandas frames and xarray data sets; tables, figures and the report of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taugrid_analysis.run.opened import Run

__all__ = ["open"]


def open(run: str | Path) -> Run:
    """A finished run by its folder or its results.h5.

    Raises errors.InputError, one line, where there is no finished run or the file does not keep the contract.
    """
    # Here, as pandas and xarray take a second to load, which --help does without.
    from taugrid_analysis.run.opened import Run

    return Run(run)
