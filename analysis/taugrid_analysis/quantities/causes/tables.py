# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity over runs: what pre-training, steps and data do to it, and what makes the barrier."""

from __future__ import annotations

from collections.abc import Sequence

from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.numbers.ratio import holm
from taugrid_analysis.numbers.sampling import LEVEL
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.papers import published
from taugrid_analysis.quantities.causes import several_runs
from taugrid_analysis.quantities.causes.several_runs import Setting
from taugrid_analysis.run.opened import Run


def linearity(known: Sequence[Setting]) -> Table:
    table = Table(
        "causes_linearity",
        "Cross-task linearity of pairs, last stage, α = ½",
        [
            Column("run"),
            Column("pre-training epochs"),
            Column("tasks"),
            Column("steps"),
            Column("replaced by"),
            Column("replaced %"),
            Column("seeds"),
            Column("pairs"),
            Column("1 − cosine", 3, significant=True),
            Column("least", 3, significant=True),
            Column("most", 3, significant=True),
            Column("1 − baseline", 3, significant=True),
            Column("coefficient", 3),
            Column("centred cosine", 3),
            Column("error", 3),
        ],
    )
    for setting in known:
        epochs, steps = (int(value) if value == value else None for value in (setting.epochs, setting.steps))
        far = 1 - setting.pairs["cosine"]
        table.rows.append(
            [
                *[setting.run, epochs, setting.tasks, steps, setting.other, int(setting.replaced)],
                *[len(setting.seeds), len(setting.pairs)],
                *[_far(setting, "cosine"), float(far.min()), float(far.max()), _far(setting, "baseline")],
                *[setting.mean(name) for name in ("coefficient", "centred_cosine", "error")],
            ]
        )
    if table.rows:
        table.notes += [
            f"{_spread(known)} least, most: of single pairs.",
            "Means over the points of both tasks. Baseline: cosine of the two models' own features; centred:"
            " differences from θ0's; error: ‖u − v‖/‖f(θ₁) − f(θ₂)‖. A dash: θ0's name does not say, or the"
            " models were given.",
        ]
    return table


def _far(setting: Setting, quantity: str) -> float:
    near = setting.mean(quantity)
    return Measured(1 - near, near.error) if isinstance(near, Measured) else 1 - near


def _spread(known: Sequence[Setting]) -> str:
    """What ± is of."""
    kinds = []
    if any(len(setting.seeds) > 1 for setting in known):
        kinds.append("the deviation over √seeds, of each seed's mean over its pairs")
    if any(len(setting.seeds) < 2 and setting.of_pairs and len(setting.pairs) > 1 for setting in known):
        kinds.append(
            "the deviation over √pairs, none of which share a model. It is that of the order of the"
            " training points alone: all pairs have one θ0, and how much other seeds differ is not in it"
        )
    if not kinds:
        return "A line without ± is of one seed, and of one pair or of pairs that share models."
    return f"±: {'; where there is one seed, '.join(kinds)}."


TITLES = {
    "data": lambda setting: (
        f"{setting.replaced:.0f} % of {'both tasks' if setting.other == 'start' else 'one task'}"
        f" replaced by {setting.other}'s"
        if setting.other
        else "nothing replaced"
    ),
    "steps": lambda setting: f"{setting.steps:.0f} steps",
    "start": lambda setting: "models given" if setting.steps != setting.steps else "trained from one θ0",
    "pre-training": lambda setting: f"{setting.epochs:.0f} epoch{'s' if setting.epochs != 1 else ''}",
}


def comparisons(known: Sequence[Setting]) -> Table:
    table = Table(
        "causes_comparisons",
        "What makes cross-task linearity: 1 − cosine over that without the cause",
        [
            Column("cause"),
            Column("run"),
            Column("setting"),
            Column("against"),
            Column("ratio", 3, significant=True),
            Column("low", 3, significant=True),
            Column("high", 3, significant=True),
            Column("less in"),
            Column("p", 4, least=True),
        ],
    )
    compared = several_runs.comparisons(known)
    chances = iter(holm([case.p for case in compared if case.p is not None]))
    for case in compared:
        title = TITLES[case.cause]
        numbers = [case.ratio.value, case.ratio.low, case.ratio.high] if case.ratio else [None] * 3
        table.rows.append(
            [
                *[case.cause, case.setting.run, title(case.setting), title(case.against), *numbers],
                *[f"{case.less} of {case.samples}", None if case.p is None else next(chances)],
            ]
        )
    if table.rows:
        alone = not any(len(setting.seeds) > 1 for setting in known)
        samples = "pairs of one θ0, which say nothing of other seeds" if alone else "seeds"
        table.notes.append(
            f"Below 1: more linear with the cause. Samples are {samples}, and paired: one of either setting"
            " has the same seed, and the same place among its orders of the training points. ratio: the"
            f" geometric mean; low, high: Student's {100 * LEVEL:g} % interval, each line alone; p: of a"
            " ratio of 1, corrected for all lines (Holm)."
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
    sizes = sorted({len(cloud.delta) for cloud in clouds})
    each = " to ".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1])))
    table.notes += [
        f"{len(clouds)} θ0, {sum(len(cloud.delta) for cloud in clouds)} pairs, {each} of each θ0.",
        "δ = αL(θ₁) + (1−α)L(θ₂) − L(αθ₁ + (1−α)θ₂), v = θ₁ − θ₂; λ_max of the Hessian at θ0, of two tasks"
        f" the mean of |λ_max|, at least that of their mean loss. low, high: of {100 * LEVEL:g} % of"
        f" {several_runs.DRAWS:,} bootstrap draws over θ0s and, within each, over models.",
    ]
    return table
