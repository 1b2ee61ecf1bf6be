# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One screen of text about a run."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import measures
from taugrid_analysis.facts import facts
from taugrid_analysis.figures.grids import grids
from taugrid_analysis.measures import mean
from taugrid_analysis.results import Results
from taugrid_analysis.text_table import Column, Table, as_text

WIDTH = 80
JOINED = (("regimes", "seed"), ("machine", "work"))  # two facts on one line
SHADES = " ░▒▓█"
MOST_ROWS = 9


def show(results: Results) -> str:
    """At most 24 lines of 80 columns for eight tasks and two regimes."""
    known = dict(facts(results))
    for first, second in JOINED:
        if first in known and second in known:
            title = f"{second} " if second == "seed" else ""
            known[first] += f"; {title}{known.pop(second)}"
    lines = [_line(key, value) for key, value in known.items() if key != "command"]
    return "\n".join([*lines, "", as_text(_summary(results)), *_maps(results)])


def _line(key: str, value: str) -> str:
    """Lists lose their commas before they lose their end."""
    line = f"{key:<9} {value}"
    if key == "tasks" and len(line) > WIDTH:
        line = line.replace(", ", " ")
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _summary(results: Results) -> Table:
    table = Table(
        "summary",
        "Means over tasks or pairs",
        [
            Column("regime"),
            Column("single", 3),
            Column("added", 3),
            Column("alpha"),
            Column("ξ(1,1)", 3),
            Column("ξ box", 3),
            Column("norm"),
            Column("|cos|", 3),
            Column("λ_max", 1),
        ],
    )
    start = [results.start] if results.single_task(results.start) is not None else []
    for name in (*start, *results.regimes):
        single, added = results.single_task(name), results.addition(name)
        grid, vectors = results.disentanglement(name), results.similarity(name)
        curvature = results.smoothness(name)
        table.rows.append(
            [
                name,
                mean(single.accuracy) if single else None,
                added.absolute if added else None,
                added.chosen_alpha if added else None,
                mean(measures.at(grid, 1.0, 1.0)) if grid else None,
                mean(measures.box_mean(grid, 0.0, 1.0)) if grid else None,
                mean(vectors.norm) if vectors else None,
                mean(np.abs(measures.off_diagonal(vectors.cosine))) if vectors else None,
                mean(curvature.lambda_max) if curvature else None,
            ]
        )
    return table


def _maps(results: Results) -> list[str]:
    """The mean grid of up to three regimes side by side, α1 upwards, α2 to the right."""
    found = dict(list(grids(results).items())[:3])
    if not found:
        return []
    blocks = []
    for name, grid in found.items():
        values = np.nanmean(grid.error, axis=0)
        stride = -(-len(grid.alpha) // MOST_ROWS)
        values = values[::stride, ::stride]
        rows = [
            "".join(
                2 * SHADES[int(np.clip(value / 2 * len(SHADES) * 2, 0, len(SHADES) - 1))] for value in row
            )
            for row in values[::-1]
        ]
        title = f"{name} [{grid.alpha[0]:g},{grid.alpha[-1]:g}]²"
        size = max(len(title), len(rows[0]))
        blocks.append([line.ljust(size) for line in [title, *rows]])
    height = max(len(block) for block in blocks)
    blocks = [block + [" " * len(block[0])] * (height - len(block)) for block in blocks]
    steps = "  ".join(f"{2 * shade}≥{index * 0.2:.1f}" for index, shade in enumerate(SHADES) if index)
    lines = [("  " + "   ".join(parts)).rstrip() for parts in zip(*blocks, strict=True)]
    return [f"ξ, mean over pairs   {steps}", *lines]
