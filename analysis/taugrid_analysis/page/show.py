# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One screen of text about a run."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers import means
from taugrid_analysis.page.heading import heading
from taugrid_analysis.page.renderings import as_text
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.quantities.disentanglement.figures import grids
from taugrid_analysis.run.opened import Run

WIDTH = 80
JOINED = (("regimes", "seed"), ("machine", "work"))  # two facts on one line
SHADES = " ░▒▓█"
UNKNOWN = "?"
MOST_ROWS = 9
SCREEN = 24


def show(run: Run) -> str:
    """Makes at most 24 lines of 80 columns for eight tasks and a dozen regimes."""
    known = dict(heading(run))
    for first, second in JOINED:
        if first in known and second in known:
            title = f"{second} " if second == "seed" else ""
            known[first] += f"; {title}{known.pop(second)}"
    lines = [_line(key, value) for key, value in known.items() if key != "command"]
    lines += ["", *as_text(_summary(run)).splitlines()]
    return "\n".join([*lines, *_maps(run, max(SCREEN, len(lines)) - len(lines))])


def _line(key: str, value: str) -> str:
    """Lists lose their commas before they lose their end."""
    line = f"{key:<9} {value}"
    if key == "tasks" and len(line) > WIDTH:
        line = line.replace(", ", " ")
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


# Those that fit stand in this order; where not all do, the last of WANTED go first.
COLUMNS = (
    Column("single", 3),
    Column("added", 3),
    Column("alpha"),
    Column("pairs", 3),
    Column("negated", 3),
    Column("ξ(1,1)", 3),
    Column("ξ box", 3),
    Column("τJp", 3, significant=True),
    Column("norm"),
    Column("|cos|", 3),
    Column("|λ_max|", 1),
)
WANTED = (
    "added",
    "single",
    "ξ(1,1)",
    "τJp",
    "pairs",
    "alpha",
    "negated",
    "norm",
    "ξ box",
    "|cos|",
    "|λ_max|",
)


def _summary(run: Run) -> Table:
    start = [run.results.start] if run.data("single_task", run.results.start) is not None else []
    rows = {name: _numbers(run, name) for name in (*start, *run.regimes)}
    kept = [name for name in WANTED if any(_known(row[name]) for row in rows.values())]
    note = _errors(run, list(rows))
    table = _chosen(rows, kept)
    while len(kept) > 1 and max(len(line) for line in as_text(table).splitlines()) > WIDTH:
        kept.pop()
        table = _chosen(rows, kept)
    table.notes += note
    return table


def _errors(run: Run, names: list[str]) -> list[str]:
    """There is no room for an error in each cell."""
    frame = run.summary.loc[names]
    known = {
        title: frame[f"{column}_error"].max()
        for title, column in (("single", "single"), ("added", "absolute"))
    }
    parts = [f"{title} up to {error:.3f}" for title, error in known.items() if np.isfinite(error)]
    return [f"Standard error of the sample: {', '.join(parts)}."] if parts else []


def _known(value: float | None) -> bool:
    return value is not None and bool(np.isfinite(value))


def _chosen(rows: dict[str, dict[str, float | None]], kept: list[str]) -> Table:
    columns = [column for column in COLUMNS if column.name in kept]
    lines: list[list[Value]] = [
        [name, *(row[column.name] for column in columns)] for name, row in rows.items()
    ]
    return Table("summary", "Means over tasks or pairs", [Column("regime"), *columns], lines)


SHOWN = {  # columns of the frame `summary`
    "single": "single",
    "added": "absolute",
    "alpha": "chosen_alpha",
    "pairs": "pairs",
    "negated": "negated",
    "ξ(1,1)": "xi_one",
    "ξ box": "xi_box",
    "τJp": "tau_jp",
    "norm": "norm",
    "|cos|": "cosine",
    "|λ_max|": "lambda_max",
}


def _numbers(run: Run, name: str) -> dict[str, float | None]:
    row = run.summary.loc[name]
    return {title: float(row[column]) for title, column in SHOWN.items()}


def _shade(value: float) -> str:
    if not np.isfinite(value):
        return UNKNOWN
    return SHADES[int(np.clip(value / 2 * len(SHADES) * 2, 0, len(SHADES) - 1))]


def _maps(run: Run, room: int) -> list[str]:
    """The mean grid of up to three regimes side by side, α1 upwards, α2 to the right, in these lines."""
    by_regime = dict(list(grids(run).items())[:3])
    most = min(MOST_ROWS, room - 2)
    if not by_regime or most < 4:
        return []
    blocks = []
    for name, grid in by_regime.items():
        values, alpha = means.mean_of_finite(grid["error"].to_numpy(), 0), grid["alpha_1"].to_numpy()
        stride = -(-len(alpha) // most)
        rows = ["".join(2 * _shade(value) for value in row) for row in values[::stride, ::stride][::-1]]
        title = f"{name} [{alpha[0]:g},{alpha[-1]:g}]²"
        size = max(len(title), len(rows[0]))
        blocks.append([line.ljust(size) for line in [title, *rows]])
    height = max(len(block) for block in blocks)
    blocks = [block + [" " * len(block[0])] * (height - len(block)) for block in blocks]
    steps = "  ".join(f"{2 * shade}≥{index * 0.2:.1f}" for index, shade in enumerate(SHADES) if index)
    lines = [("  " + "   ".join(parts)).rstrip() for parts in zip(*blocks, strict=True)]
    return [f"ξ, mean over pairs   {steps}", *lines]
