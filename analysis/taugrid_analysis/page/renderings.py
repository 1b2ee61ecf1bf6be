# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The three renderings of a table: aligned text and Markdown by tabulate, CSV with all digits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import tabulate

from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.table import NUMERAL, Table, Value

if TYPE_CHECKING:  # pandas takes a second to load
    import pandas as pd

ERROR = " error"  # what the name of a CSV column of standard errors ends with


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


def markdown_text(cell: str) -> str:
    """Text that neither ends a column nor begins a tag of HTML."""
    return cell.replace("|", "\\|").replace("<", "\\<")


def as_markdown(table: Table) -> str:
    body = _tabulated(table, "pipe", markdown_text)
    lines = [f"### {markdown_text(table.title)}", "", *body]
    if table.notes:
        lines += ["", *[f"{markdown_text(note)}  " for note in table.notes]]
    return "\n".join(lines)


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what begins a cell that a spreadsheet computes


def csv_text(cell: str) -> str:
    """A cell of text that no spreadsheet computes: an apostrophe stands before what looks like a formula.

    Numbers, which may begin with a sign, stay as they are.
    """
    return f"'{cell}" if cell.startswith(FORMULA) and not NUMERAL.fullmatch(cell) else cell


def frame_csv(frame: pd.DataFrame) -> str:
    """A frame of the report as CSV."""
    texts = frame.select_dtypes(exclude="number")
    safe = texts.map(lambda one: csv_text(one) if isinstance(one, str) else one)
    return str(frame.assign(**safe).rename(columns=csv_text).to_csv(index=False, float_format="%.10g"))


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
    writer.writerow(map(csv_text, names))
    for row in table.rows:
        cells: list[Value] = []
        for value, errors in zip(row, measured, strict=True):
            cells.append("" if value is None else csv_text(value) if isinstance(value, str) else value)
            if errors:
                known = isinstance(value, Measured) and math.isfinite(value.error)
                cells.append(value.error if isinstance(value, Measured) and known else "")
        writer.writerow(cells)
    return out.getvalue().rstrip("\n")


RENDERERS: dict[str, Callable[[Table], str]] = {"text": as_text, "markdown": as_markdown, "csv": as_csv}
