# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The three renderings of a table: aligned text and Markdown by tabulate, CSV with all digits."""

from __future__ import annotations

import csv
import io
import itertools
import math
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable
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


def _tabulated(
    table: Table,
    layout: str | tabulate.TableFormat,
    escape: Callable[[str], str],
    widths: list[int | None] | None = None,
) -> list[str]:
    """The lines that tabulate makes of the cells, which are text already.

    `widths`: where cells are broken into lines.
    """
    rows = [[escape(cell) for cell in row] for row in table.shown()]
    if widths:
        rows = [list(line) for row in rows for line in _lines_of(row, widths)]
    lines = tabulate.tabulate(
        rows,
        headers=[escape(column.heading) for column in table.columns],
        tablefmt=layout,
        disable_numparse=True,
        colalign=["right" if flush else "left" for flush in table.numeric()] if table.rows else None,
    )
    return [line.rstrip() for line in lines.splitlines()]


def _lines_of(row: list[str], widths: list[int | None]) -> list[tuple[str, ...]]:
    """A row as rows that are one line each."""
    cells = [
        textwrap.wrap(cell, limit) if limit and cell else [cell]
        for cell, limit in zip(row, widths, strict=True)
    ]
    return list(itertools.zip_longest(*cells, fillvalue=""))


def as_text(table: Table) -> str:
    body = _tabulated(table, _PLAIN, str)
    return "\n".join([table.title, *body, *[f"  {note}" for note in table.notes]])


LEAST_CELL = 16  # of a cell that is broken into lines


def for_terminal(table: Table, width: int) -> str:
    """The table as as_text() has it, within the columns of a terminal: long notes and cells are broken.

    Where numbers alone are wider, a last line says which format has all of them.
    """
    body = _tabulated(table, _PLAIN, str)
    widest = max(map(len, body))
    if widest > width:
        body = _tabulated(table, _PLAIN, str, _broken(table, widest - width))
        widest = max(map(len, body))
    notes = [*table.notes]
    if widest > width:
        notes.append(
            f"The table is {widest} columns wide, this terminal {width}: --format csv has all of it."
        )
    lines = [
        line
        for note in notes
        for line in textwrap.wrap(note, max(width, 40), initial_indent="  ", subsequent_indent="  ")
    ]
    return "\n".join([*textwrap.wrap(table.title, max(width, 40)), *body, *lines])


def _broken(table: Table, beyond: int) -> list[int | None]:
    """Where cells of text are broken so that the table is narrower by `beyond`, the widest columns first."""
    cells = [[column.heading for column in table.columns], *table.shown()]
    widths = [max(len(row[place]) for row in cells) for place in range(len(table.columns))]
    limits: list[int | None] = [None] * len(widths)
    texts = [place for place, numbers in enumerate(table.numeric()) if not numbers]
    for place in sorted(texts, key=lambda index: -widths[index]):
        least = max(LEAST_CELL, len(table.columns[place].heading))
        taken = min(beyond, widths[place] - least)
        if taken <= 0:
            continue
        limits[place], beyond = widths[place] - taken, beyond - taken
    return limits


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
    safe = texts.map(lambda value: csv_text(value) if isinstance(value, str) else value)
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


def print_tables(tables: Iterable[Table], form: str) -> None:
    """Prints them in a format; as text for a terminal within its width, for a pipe as they are."""
    if form == "text" and sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        print("\n\n".join(for_terminal(table, width) for table in tables))
    else:
        print("\n\n".join(RENDERERS[form](table) for table in tables))


RENDERERS: dict[str, Callable[[Table], str]] = {"text": as_text, "markdown": as_markdown, "csv": as_csv}
