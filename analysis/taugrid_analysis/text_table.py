# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A table and its three renderings: aligned text, Markdown, CSV."""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field

NUMERAL = re.compile(r"-?[\d.,]+")  # as a paper prints it

Value = str | int | float | None


@dataclass(frozen=True)
class Column:
    """How a column's numbers are shown; CSV gets them as they are in the file."""

    name: str
    digits: int = 2
    percent: bool = False
    scientific: bool = False
    significant: bool = False  # digits count from the first that is not 0

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
        if self.scientific:
            return f"{value:.{self.digits}e}"
        if self.significant:
            return f"{value:#.{self.digits}g}"
        return f"{100 * value if self.percent else value:.{self.digits}f}"


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


def width(text: str) -> int:
    """Columns of the terminal: combining marks take none."""
    return sum(0 if unicodedata.combining(char) else 1 for char in text)


def _pad(text: str, size: int, right: bool) -> str:
    blank = " " * (size - width(text))
    return blank + text if right else text + blank


def as_text(table: Table) -> str:
    heads = [column.heading for column in table.columns]
    body = table.shown()
    right = table.numeric()
    sizes = [max(width(row[index]) for row in [heads, *body]) for index in range(len(heads))]
    lines = [table.title]
    for row in [heads, ["─" * size for size in sizes], *body]:
        cells = (_pad(cell, size, flush) for cell, size, flush in zip(row, sizes, right, strict=True))
        lines.append(("  " + "  ".join(cells)).rstrip())
    lines += [f"  {note}" for note in table.notes]
    return "\n".join(lines)


def as_markdown(table: Table) -> str:
    def escape(cell: str) -> str:
        return cell.replace("|", "\\|")

    lines = [f"### {table.title}", ""]
    lines.append("| " + " | ".join(escape(column.heading) for column in table.columns) + " |")
    lines.append("| " + " | ".join("---:" if flush else "---" for flush in table.numeric()) + " |")
    lines += ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in table.shown()]
    if table.notes:
        lines += ["", *[f"{note}  " for note in table.notes]]
    return "\n".join(lines)


def as_csv(table: Table) -> str:
    """Every number with all its digits, fractions as fractions; the title and the notes as # lines."""
    out = io.StringIO()
    for line in [table.title, *table.notes]:
        out.write(f"# {line}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    for row in table.rows:
        writer.writerow(["" if value is None else value for value in row])
    return out.getvalue().rstrip("\n")


RENDERERS: dict[str, Callable[[Table], str]] = {"text": as_text, "markdown": as_markdown, "csv": as_csv}
