# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A table with its three renderings: aligned text and Markdown by tabulate, CSV with all digits."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import tabulate

NUMERAL = re.compile(r"-?[\d.,]+( ± [\d.e-]+)?( \?)?")  # as a paper or this program prints it; ?: doubtful
ERROR = " error"  # what the name of a CSV column of standard errors ends with


class Measured(float):
    """A number with the standard error of the evaluation sample; NaN where the error is unknown."""

    error: float

    def __new__(cls, value: float, error: float) -> Measured:
        made = super().__new__(cls, value)
        made.error = float(error)
        return made


def percent(value: Measured) -> Measured:
    return Measured(100 * value, 100 * value.error)


Value = str | int | float | None


@dataclass(frozen=True)
class Column:
    """How a column's numbers are shown; CSV gets them as they are in the file."""

    name: str
    digits: int = 2
    percent: bool = False
    scientific: bool = False
    significant: bool = False  # digits count from the first that is not 0; two of an error, if known

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


tabulate.MIN_PADDING = 0  # of headings, which would else be wider than their columns

# Two blanks before and between columns, one rule below the headings.
_PLAIN = tabulate.TableFormat(
    lineabove=None,
    linebelowheader=tabulate.Line("  ", "─", "  ", ""),
    linebetweenrows=None,
    linebelow=None,
    headerrow=tabulate.DataRow("  ", "  ", ""),
    datarow=tabulate.DataRow("  ", "  ", ""),
    padding=0,
    with_header_hide=None,
)


def _tabulated(table: Table, layout: str | tabulate.TableFormat, escape: Callable[[str], str]) -> list[str]:
    """The lines that tabulate makes of the cells, which are text already."""
    made = tabulate.tabulate(
        [[escape(cell) for cell in row] for row in table.shown()],
        headers=[escape(column.heading) for column in table.columns],
        tablefmt=layout,
        disable_numparse=True,
        colalign=["right" if flush else "left" for flush in table.numeric()] if table.rows else None,
    )
    return [line.rstrip() for line in made.splitlines()]


def as_text(table: Table) -> str:
    body = _tabulated(table, _PLAIN, str)
    return "\n".join([table.title, *body, *[f"  {note}" for note in table.notes]])


def as_markdown(table: Table) -> str:
    body = _tabulated(table, "pipe", lambda cell: cell.replace("|", "\\|"))
    lines = [f"### {table.title}", "", *body]
    if table.notes:
        lines += ["", *[f"{note}  " for note in table.notes]]
    return "\n".join(lines)


def as_csv(table: Table) -> str:
    """Every number with all its digits, fractions as fractions; the title and the notes as # lines.

    A column with standard errors is followed by one that holds them, `NAME error`.
    """
    out = io.StringIO()
    for line in [table.title, *table.notes]:
        out.write(f"# {line}\n")
    measured = [
        any(isinstance(row[place], Measured) for row in table.rows) for place in range(len(table.columns))
    ]
    writer = csv.writer(out, lineterminator="\n")
    names: list[str] = []
    for column, errors in zip(table.columns, measured, strict=True):
        names += [column.name, column.name + ERROR] if errors else [column.name]
    writer.writerow(names)
    for row in table.rows:
        cells: list[Value] = []
        for value, errors in zip(row, measured, strict=True):
            cells.append("" if value is None else value)
            if errors:
                known = isinstance(value, Measured) and math.isfinite(value.error)
                cells.append(value.error if isinstance(value, Measured) and known else "")
        writer.writerow(cells)
    return out.getvalue().rstrip("\n")


RENDERERS: dict[str, Callable[[Table], str]] = {"text": as_text, "markdown": as_markdown, "csv": as_csv}
