# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One screen of text about a run."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import measures, outcomes
from taugrid_analysis.facts import facts
from taugrid_analysis.figures.grids import grids
from taugrid_analysis.measures import mean
from taugrid_analysis.results import Results
from taugrid_analysis.text_table import Column, Table, Value, as_text

WIDTH = 80
JOINED = (("regimes", "seed"), ("machine", "work"))  # two facts on one line
SHADES = " ░▒▓█"
UNKNOWN = "?"
MOST_ROWS = 9
SCREEN = 24


def show(results: Results) -> str:
    """At most 24 lines of 80 columns for eight tasks and a dozen regimes."""
    known = dict(facts(results))
    for first, second in JOINED:
        if first in known and second in known:
            title = f"{second} " if second == "seed" else ""
            known[first] += f"; {title}{known.pop(second)}"
    lines = [_line(key, value) for key, value in known.items() if key != "command"]
    lines += ["", *as_text(_summary(results)).splitlines()]
    return "\n".join([*lines, *_maps(results, max(SCREEN, len(lines)) - len(lines))])


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
    Column("λ_max", 1),
)
WANTED = ("added", "single", "ξ(1,1)", "τJp", "pairs", "alpha", "negated", "norm", "ξ box", "|cos|", "λ_max")


def _summary(results: Results) -> Table:
    start = [results.start] if results.single_task(results.start) is not None else []
    rows = {name: _numbers(results, name) for name in (*start, *results.regimes)}
    kept = [name for name in WANTED if any(_known(row[name]) for row in rows.values())]
    table = _chosen(rows, kept)
    while len(kept) > 1 and max(len(line) for line in as_text(table).splitlines()) > WIDTH:
        kept.pop()
        table = _chosen(rows, kept)
    return table


def _known(value: float | None) -> bool:
    return value is not None and bool(np.isfinite(value))


def _chosen(rows: dict[str, dict[str, float | None]], kept: list[str]) -> Table:
    columns = [column for column in COLUMNS if column.name in kept]
    lines: list[list[Value]] = [
        [name, *(row[column.name] for column in columns)] for name, row in rows.items()
    ]
    return Table("summary", "Means over tasks or pairs", [Column("regime"), *columns], lines)


def _numbers(results: Results, name: str) -> dict[str, float | None]:
    single, added = results.single_task(name), results.addition(name)
    grid, vectors = results.disentanglement(name), results.similarity(name)
    curvature, product = results.smoothness(name), results.tau_jp(name)
    two, negated = results.pair_addition(name), results.negation(name)
    between = measures.of_pairs(measures.symmetric(product.value), results.pairs) if product else None
    return {
        "single": mean(single.accuracy) if single else None,
        "added": added.absolute if added else None,
        "alpha": added.chosen_alpha if added else None,
        "pairs": mean(two.normalized) if two else None,
        "negated": outcomes.forgetting(negated.narrow).target if negated else None,
        "ξ(1,1)": mean(measures.at(grid, 1.0, 1.0)) if grid else None,
        "ξ box": mean(measures.box_mean(grid, 0.0, 1.0)) if grid else None,
        "τJp": mean(between) if between is not None else None,
        "norm": mean(vectors.norm) if vectors else None,
        "|cos|": mean(np.abs(measures.off_diagonal(vectors.cosine))) if vectors else None,
        "λ_max": mean(curvature.lambda_max) if curvature else None,
    }


def _shade(value: float) -> str:
    if not np.isfinite(value):
        return UNKNOWN
    return SHADES[int(np.clip(value / 2 * len(SHADES) * 2, 0, len(SHADES) - 1))]


def _maps(results: Results, room: int) -> list[str]:
    """The mean grid of up to three regimes side by side, α1 upwards, α2 to the right, in these lines."""
    found = dict(list(grids(results).items())[:3])
    most = min(MOST_ROWS, room - 2)
    if not found or most < 4:
        return []
    blocks = []
    for name, grid in found.items():
        stride = -(-len(grid.alpha) // most)
        cells = np.moveaxis(grid.error[:, ::stride, ::stride], 0, -1)[::-1]
        rows = ["".join(2 * _shade(mean(cell)) for cell in row) for row in cells]
        title = f"{name} [{grid.alpha[0]:g},{grid.alpha[-1]:g}]²"
        size = max(len(title), len(rows[0]))
        blocks.append([line.ljust(size) for line in [title, *rows]])
    height = max(len(block) for block in blocks)
    blocks = [block + [" " * len(block[0])] * (height - len(block)) for block in blocks]
    steps = "  ".join(f"{2 * shade}≥{index * 0.2:.1f}" for index, shade in enumerate(SHADES) if index)
    lines = [("  " + "   ".join(parts)).rstrip() for parts in zip(*blocks, strict=True)]
    return [f"ξ, mean over pairs   {steps}", *lines]
