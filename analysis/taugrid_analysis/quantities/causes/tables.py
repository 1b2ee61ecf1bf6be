# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity over runs: what pre-training, steps and data do to it, and what makes the barrier."""

from __future__ import annotations

from collections.abc import Sequence

from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.papers import published
from taugrid_analysis.quantities.causes import several_runs
from taugrid_analysis.run.opened import Run


def linearity(runs: Sequence[Run]) -> Table:
    table = Table(
        "causes_linearity",
        "Cross-task linearity of pairs, last stage, α = ½",
        [
            Column("run"),
            Column("pre-training epochs"),
            Column("pair"),
            Column("steps"),
            Column("replaced by"),
            Column("replaced %"),
            Column("1 − cosine", 2, scientific=True),
            Column("lower quartile", 2, scientific=True),
            Column("upper quartile", 2, scientific=True),
            Column("1 − baseline", 2, scientific=True),
            Column("coefficient", 4),
            Column("centred cosine", 4),
            Column("error", 4),
        ],
    )
    frame = several_runs.linearity(runs)
    for _, row in () if frame.empty else frame[~frame["alike"]].iterrows():  # alike: those of the barrier
        whole = (int(row[name]) if row[name] == row[name] else None for name in ("epochs", "steps"))
        epochs, steps = whole
        numbers = [
            *(1 - row[name] for name in ("cosine", "cosine_upper", "cosine_lower", "baseline")),
            *row[["coefficient", "centred_cosine", "error"]],
        ]
        labels = [row["run"], epochs, row["pair"], steps, row["other"], int(row["replaced"])]
        table.rows.append([*labels, *map(float, numbers)])
    if table.rows:
        table.notes.append(
            "Means over the points of both tasks; quartiles of 1 − cosine are over points. A line is one pair"
            " of one seed: how much others differ is not in it. Baseline: cosine of the two models' own"
            " features; centred: differences from θ0's; error: ‖u − v‖/‖f(θ₁) − f(θ₂)‖. A dash: θ0's name"
            " does not say, or the models were given."
        )
    return table


def barrier(runs: Sequence[Run]) -> Table:
    clouds = several_runs.clouds(runs)
    table = Table(
        "causes_barrier",
        "Loss barrier over several θ0: R² on its causes (cross-task linearity paper, appendix C.2)",
        [
            Column("barrier"),
            Column("regressed on"),
            Column("published", 3),
            Column("ours", 3),
            Column("low", 3),
            Column("high", 3),
            Column("slope", 3, significant=True),
        ],
    )
    if not clouds:
        return table
    common = [name for name in clouds[0].causes if all(name in cloud.causes for cloud in clouds)]
    for name in common:
        for signed in (True, False) if name in several_runs.SIGNED else (False,):
            fit = several_runs.explained(clouds, name, signed)
            kind = "signed" if signed else "absolute"
            numbers = [published.explained().get(name), fit.value, fit.low, fit.high, fit.slope]
            table.rows.append([kind, name, *numbers])
    sizes = ", ".join(f"{cloud.run}: {len(cloud.delta)}" for cloud in clouds)
    table.notes += [
        f"{len(clouds)} θ0, {sum(len(cloud.delta) for cloud in clouds)} pairs ({sizes}).",
        "δ = αL(θ₁) + (1−α)L(θ₂) − L(αθ₁ + (1−α)θ₂), v = θ₁ − θ₂; λ_max of the Hessian at θ0, of two tasks"
        " the mean of |λ_max|, at least that of their mean loss. low, high: of"
        f" 95 % of {several_runs.DRAWS:,} bootstrap draws over θ0s and, within each, over models.",
    ]
    return table
