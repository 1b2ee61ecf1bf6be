# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Several runs of one experiment side by side: means over seeds, and whether task arithmetic shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from taugrid_analysis import measures
from taugrid_analysis.measures import mean
from taugrid_analysis.results import Results
from taugrid_analysis.text_table import Column, Table, Value

GAIN = 0.15  # what fine-tuning adds to the mean accuracy
RECOVERED = 1 / 3  # the summed task vectors' part of that gain
NEAR = 0.5  # ξ(α,α) at this α, against the grid's far corner


@dataclass(frozen=True)
class Summary:
    """One regime of one run; accuracies are means over tasks, ξ means over pairs."""

    start: str  # pretrained or random
    regime: str
    seed: str
    zero_shot: float
    single: float
    added: float  # θ0 + α Σ τ at the chosen α
    alpha: float
    near: float
    one: float
    far: float
    norm: float
    matched: float  # ξ(α,α) averaged up to a length of the step that both regimes reach

    @property
    def gain(self) -> float:
        return self.single - self.zero_shot

    @property
    def recovered(self) -> float:
        return (self.added - self.zero_shot) / self.gain if self.gain > 0 else float("nan")


def summaries(results: Results) -> list[Summary]:
    start = results.single_task(results.start)
    grids = {name: grid for name in results.regimes if (grid := results.disentanglement(name)) is not None}
    similar = {name: record for name in results.regimes if (record := results.similarity(name)) is not None}
    matched = measures.matched_norm(grids, similar, results.pairs)
    lengths = matched.error if matched is not None else {}
    found = []
    for name in results.names("addition"):
        single, addition, grid = results.single_task(name), results.addition(name), grids.get(name)
        if start is None or single is None or addition is None or grid is None:
            continue
        corner = float(grid.alpha[-1])
        found.append(
            Summary(
                start=results.start,
                regime=name,
                seed=" ".join(results.seeds()),
                zero_shot=mean(start.accuracy),
                single=mean(single.accuracy),
                added=addition.absolute,
                alpha=addition.chosen_alpha,
                near=mean(measures.at(grid, NEAR, NEAR)),
                one=mean(measures.at(grid, 1.0, 1.0)),
                far=mean(measures.at(grid, corner, corner)),
                norm=mean(similar[name].norm) if name in similar else float("nan"),
                matched=mean(lengths[name].ravel()) if name in lengths else float("nan"),
            )
        )
    return found


COLUMNS = [
    ("zero_shot", 1, True),
    ("single", 1, True),
    ("gain", 1, True),
    ("added", 1, True),
    ("recovered", 0, True),
    ("alpha", 2, False),
    ("near", 3, False),
    ("one", 3, False),
    ("far", 3, False),
    ("norm", 2, False),
    ("matched", 3, False),
]
HEADINGS = {
    "near": f"ξ({NEAR:g},{NEAR:g})",
    "one": "ξ(1,1)",
    "far": "ξ far corner",
    "norm": "‖τ‖",
    "matched": "ξ at equal ‖τ‖",
}


def table(found: list[Summary]) -> Table:
    """A row a run and regime, then mean and standard deviation over the seeds of a start and regime."""
    columns = [Column(HEADINGS.get(name, name), digits, percent=percent) for name, digits, percent in COLUMNS]
    result = Table(
        "seeds",
        "Runs side by side; accuracies are means over tasks, ξ means over pairs",
        [Column("start"), Column("regime"), Column("seed"), *columns],
        notes=[
            "gain: single − zero_shot; added: θ0 + α Σ τ at the α chosen on validation;"
            " recovered: its part of the gain.",
            "ξ at equal ‖τ‖: along the diagonal, averaged up to a step's length that both regimes reach.",
        ],
    )
    for start, regime in dict.fromkeys((one.start, one.regime) for one in found):
        group = [one for one in found if (one.start, one.regime) == (start, regime)]
        numbers = np.array([[getattr(one, name) for name, _, _ in COLUMNS] for one in group])
        for one, row in zip(group, numbers, strict=True):
            result.rows.append([start, regime, one.seed, *row.tolist()])
        if len(group) > 1:
            result.rows.append([start, regime, "mean", *numbers.mean(axis=0).tolist()])
            result.rows.append([start, regime, "deviation", *numbers.std(axis=0, ddof=1).tolist()])
    return result


def criteria(found: list[Summary]) -> Table:
    """Whether task arithmetic shows, by start and regime: in how many of the runs."""
    result = Table(
        "criteria",
        "Task arithmetic shows?",
        [
            Column("criterion"),
            Column("start"),
            Column("regime"),
            Column("least", 3),
            Column("largest", 3),
            Column("holds"),
        ],
    )
    checks: list[tuple[str, Callable[[Summary], float], float]] = [
        (f"gain ≥ {100 * GAIN:.0f} points", lambda one: one.gain, GAIN),
        ("recovered ≥ 1/3", lambda one: one.recovered, RECOVERED),
        ("ξ far corner − near > 0", lambda one: one.far - one.near, 0.0),
    ]
    for title, value, limit in checks:
        for start, regime in dict.fromkeys((one.start, one.regime) for one in found):
            values = [value(one) for one in found if (one.start, one.regime) == (start, regime)]
            holds = sum(v >= limit if limit > 0 else v > 0 for v in values)
            row: list[Value] = [title, start, regime, min(values), max(values), f"{holds} of {len(values)}"]
            result.rows.append(row)
    return result
