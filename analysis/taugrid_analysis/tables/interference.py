# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What predicts interference, and a bound of it beside what it bounds."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from taugrid_analysis import correlation, predictors
from taugrid_analysis.bounds import bounds, negation, sums, transfer
from taugrid_analysis.correlation import rank_correlation
from taugrid_analysis.frames.pairs import twin
from taugrid_analysis.measures import mean
from taugrid_analysis.run import Run
from taugrid_analysis.text_table import Column, Table


def predictor_table(run: Run) -> Table:
    table = Table(
        "predictors",
        "What predicts interference: correlation with normalised accuracy of a pair's sum, or its loss gap",
        [
            Column("regime"),
            Column("outcome"),
            Column("predictor"),
            Column("points"),
            Column("pairs"),
            Column("Pearson", 2),
            Column("Spearman", 2),
            Column("least without a task", 2),
            Column("largest without a task", 2),
            Column("p", 4),
            Column("p of the best", 4),
            Column("seconds", 2, significant=True),
        ],
    )
    titles = predictors.TITLES | {key: f"{title} *" for key, title in predictors.SAME_THING.items()}
    for line in predictors.lines(run):
        one = line.spearman
        numbers = [line.pearson, one.value, one.low, one.high, one.p, one.best, line.seconds]
        named = [line.regime, line.outcome, titles[line.predictor], line.points]
        table.rows.append([*named, line.pairs, *numbers])
    if not table.rows:
        return table
    counts: dict[str, int] = {}
    for line in predictors.lines(run):
        if line.predictor in predictors.TITLES:
            counts[line.regime] = max(line.looked, counts.get(line.regime, 0))
    looked = ", ".join(f"{regime}: {count}" for regime, count in counts.items())
    table.notes += [
        "p: Mantel's test of Spearman's correlation, two-sided: the share of permutations of the tasks"
        f" ({correlation.PERMUTATIONS:,} drawn with seed {correlation.SEED}, or all) that reach it. p of the"
        " best: the largest of all predictors measured reaches it"
        f" ({looked}), as the best is found by looking at all.",
        "tuned, one shot: normalised accuracy, α by validation or 1, of which interference makes less; loss"
        " gap: mean over both tasks of the test loss at equal parts of both vectors less the own model's, of"
        " which it makes more. seconds: of all units that measure the predictor, fine-tuning apart.",
        "least, largest: leaving out one task and all its pairs. points: the split that the predictor is"
        " measured on; the outcome is of test points.",
        "*: no predictor. ξ(1,1) bounds the change of accuracy by construction: another measure of the same"
        " thing.",
        "Σ L C (1+ε): bounds of both tasks' loss gaps, added; NTK share − null: own share of the local energy"
        " beyond that with more of the same task as control, mean of both directions; linearity error:"
        " ‖u − v‖/‖f(θ₁) − f(θ₂)‖ of the last layer at α = ½, whose u is the model of the loss gap; of a"
        " linearised model 0 but for rounding, and no predictor. A dash: constant, or"
        f" fewer than {correlation.LEAST} pairs. What a run did not measure has no line.",
    ]
    table.notes.append(_cheapest(run))
    shared = [name for name in run.results.names("pair_addition") if _borrowed(run, name)]
    if shared:
        table.notes.append(f"{', '.join(shared)}: τJp or cosine of the same task vectors in the twin regime.")
    return table


def _cheapest(run: Run) -> str:
    """Which predictor costs least of those that tell more than permutations of the tasks do."""
    groups: dict[tuple[str, str], list[predictors.Line]] = {}
    for line in predictors.lines(run):
        groups.setdefault((line.regime, line.outcome), []).append(line)
    told = []
    for (regime, outcome), lines in groups.items():
        best = predictors.cheapest(lines)
        if best is not None:
            took = f"{best.seconds:.3g} s" if best.seconds == best.seconds else "seconds unknown"
            told.append(f"{regime}, {outcome}: {predictors.TITLES[best.predictor]} ({took})")
    return f"The cheapest with p of the best below 0.05: {'; '.join(told) or 'none'}."


def _borrowed(run: Run, regime: str) -> bool:
    """Whether a predictor comes from the regime with the same task vectors."""
    return any(
        run.data(group, regime) is None and twin(run.results, group, regime) is not None
        for group in ("tau_jp", "similarity")
    )


def bound_table(run: Run) -> Table:
    table = Table(
        "bound",
        "Loss gap at θ0 + ½(τ₁ + τ₂) beside its bound L C (1+ε), mean over a task's pairs",
        [*_BOUND, Column("ε", 3)],
    )
    _add_bounds(table, run, bounds, "")
    _add_bounds(table, run, sums, ", all T at 1/T")
    if table.rows:
        table.notes += [
            "C: the larger ‖τ‖² of both; ε: |cos|. all T at 1/T, where [similarity] sum_alpha holds 1/T: the"
            " gap at θ0 + Σ τ/T of all T tasks, one a task, with the largest ‖τ‖² and |cos| of all.",
            _SAID_OF_BOUNDS.format("theorem 4.4", "a task's pairs"),
        ]
    return table


def other_bounds_table(run: Run) -> Table:
    """Of negation, and of one vector's use on another task."""
    table = Table(
        "other_bounds",
        "Loss gaps of single vectors on other tasks beside their bounds, mean over a task's gaps",
        [*_BOUND, Column("ε or β", 3)],
    )
    _add_bounds(table, run, negation, ", θ0 − τ of another")
    _add_bounds(table, run, transfer, ", θ0 + τ of the nearest")
    if table.rows:
        table.notes += [
            "θ0 − τ of another: L_j(θ0 − τ_i) − L_j(θ0) and L C (3/2+ε), ε = |cos|. θ0 + τ of the nearest:"
            " L_j(θ0 + τ_i) − L_j(θ0 + τ_j) of the largest ⟨τ_i, τ_j⟩ and L C (1−β), β = ⟨τ_i, τ_j⟩/C,"
            " which the theorem assumes above 0. C: the larger ‖τ‖² of both.",
            _SAID_OF_BOUNDS.format("each theorem", "a task's gaps"),
        ]
    return table


_BOUND = (
    Column("regime"),
    Column("task"),
    Column("gap, nat", 3),
    Column("bound", 2),
    Column("tightness", 4),
    Column("largest tightness", 4),
    Column("bound holds"),
    Column("L", 2),
    Column("C", 2),
)
_SAID_OF_BOUNDS = (
    "Without ±: losses of single points are not stored. tightness: gap/bound, median over {1}; 1 is a tight"
    " bound, near 0 one that says little, above 1 one that fails. Gap: test loss; L: curvature of the"
    " training loss at the task's own model ({0} of the bases paper takes both of one loss, and θ_i for a"
    " minimum of it)."
)


def _add_bounds(table: Table, run: Run, of: Callable[[Run, str], pd.DataFrame | None], what: str) -> None:
    for regime in run.results.names("smoothness"):
        found = of(run, regime)
        if found is None:
            continue
        groups = [*found.groupby("task", sort=False), ("all", found)]
        for task, part in groups:
            holds = int((part["tightness"] <= 1).sum())
            constants = [mean(part[name]) for name in ("curvature", "size", "similarity")]
            table.rows.append(
                [
                    regime + what,
                    str(task),
                    mean(part["gap"]),
                    mean(part["bound"]),
                    float(part["tightness"].median()),
                    float(part["tightness"].max()),
                    f"{holds} of {len(part)}",
                    *constants,
                ]
            )
        ranks = rank_correlation(found["bound"].to_numpy(), found["gap"].to_numpy())
        table.notes.append(
            f"{regime}{what}: rank correlation of bound and gap {ranks:+.2f} over {len(found)} gaps."
        )
