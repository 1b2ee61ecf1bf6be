# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A table: named columns that say how their numbers are shown, rows and notes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from taugrid_analysis.numbers.measured import Measured

NUMERAL = re.compile(r"-?[\d.,]+( ± [\d.e-]+)?( \?)?")  # as a paper or this program prints it; ?: doubtful


Value = str | int | float | None


def beginning(row: Sequence[Value]) -> list[str]:
    """The words before a row's first number, which name it in every run of an experiment.

    A star behind one marks what was chosen of several rows: another run may choose another one.
    """
    return [word.removesuffix(" *") for word in takewhile(lambda cell: isinstance(cell, str), row)]  # type: ignore[union-attr]


@dataclass(frozen=True)
class Column:
    """How a column's numbers are shown; CSV gets them as they are in the file."""

    name: str
    digits: int = 2
    percent: bool = False
    scientific: bool = False
    significant: bool = False  # digits count from the first that is not 0; two of an error, if known
    timed: bool = False  # of a clock: every run has another
    least: bool = False  # of p, which is never 0: less than the digits can show is said so

    @property
    def heading(self) -> str:
        return f"{self.name} %" if self.percent else self.name

    def show(self, value: Value) -> str:
        if value is None:
            return "–"
        if isinstance(value, str):
            return value
        if isinstance(value, int):
            return f"{value:,}"
        if not math.isfinite(value):
            return "–"
        if self.least and 0 <= value < 10.0**-self.digits:
            return f"< {10.0**-self.digits:.{self.digits}f}"
        shown = self._number(value)
        if isinstance(value, Measured) and math.isfinite(value.error):
            if self.significant:
                shown, error = self._as_known(value)
            else:
                error = self._number(value.error)
            if not re.search("[1-9]", error) and value.error > 0:  # too small for the column's digits
                error = f"{100 * value.error if self.percent else value.error:.1g}"
            shown += f" ± {error}"
        return shown

    def _number(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{self.digits}e}"
        if self.significant:
            return f"{value:#.{self.digits}g}".removesuffix(".")
        return f"{100 * value if self.percent else value:.{self.digits}f}"

    def _as_known(self, value: Measured) -> tuple[str, str]:
        """Value and error with two digits of the error, and no more of the value than the column has."""
        digits = self.digits - _magnitude(value) - 1
        if value.error > 0:
            digits = min(digits, 1 - _magnitude(value.error))
        digits = max(digits, 0)
        return f"{value:.{digits}f}", f"{value.error:.{digits}f}"


def _magnitude(value: float) -> int:
    """The exponent of the first digit; 0 of 0."""
    return math.floor(math.log10(abs(value))) if value else 0


@dataclass
class Table:
    name: str
    title: str
    columns: list[Column]
    rows: list[list[Value]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def shown(self) -> list[list[str]]:
        return [
            [column.show(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows
        ]

    def numeric(self) -> list[bool]:
        """Which columns hold no text but numbers, and so stand flush right."""
        return [
            not any(
                isinstance(row[index], str) and not NUMERAL.fullmatch(str(row[index])) for row in self.rows
            )
            for index in range(len(self.columns))
        ]
