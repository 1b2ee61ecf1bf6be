# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What predicts interference."""

from __future__ import annotations

from taugrid_analysis.numbers import correlation, prediction, sampling
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.quantities.predictors import lines as predictors_lines
from taugrid_analysis.quantities.predictors import merges as merge_rows
from taugrid_analysis.quantities.predictors.lines import TITLES
from taugrid_analysis.run.opened import Run


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
            Column("p", 4, least=True),
            Column("p of the best", 4, least=True),
            Column("seconds", 2, significant=True, timed=True),
        ],
    )
    titles = TITLES | {key: f"{title} *" for key, title in predictors_lines.SAME_THING.items()}
    for line in predictors_lines.lines(run):
        spearman = line.spearman
        numbers = [
            line.pearson,
            spearman.value,
            spearman.low,
            spearman.high,
            spearman.p,
            spearman.best,
            line.seconds,
        ]
        named = [line.regime, line.outcome, titles[line.predictor], line.points]
        table.rows.append([*named, line.pairs, *numbers])
    if not table.rows:
        return table
    counts: dict[str, int] = {}
    for line in predictors_lines.lines(run):
        if line.predictor in predictors_lines.TITLES:
            counts[line.regime] = max(line.looked, counts.get(line.regime, 0))
    looked = ", ".join(f"{regime}: {count}" for regime, count in counts.items())
    table.notes += [
        "p: Mantel's test of Spearman's correlation, two-sided: the share of permutations of the tasks"
        f" ({correlation.PERMUTATIONS:,} drawn with seed {correlation.SEED}, or all) that reach it. p of the"
        " best: the largest of all predictors and outcomes of the regime reaches it"
        f" ({looked} correlations), as the best is found by looking at all. Regimes and seeds aside.",
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
    groups: dict[tuple[str, str], list[predictors_lines.Line]] = {}
    for line in predictors_lines.lines(run):
        groups.setdefault((line.regime, line.outcome), []).append(line)
    texts = []
    for (regime, outcome), lines in groups.items():
        best = predictors_lines.cheapest(lines)
        if best is not None:
            took = f"{best.seconds:.3g} s" if best.seconds == best.seconds else "seconds unknown"
            texts.append(f"{regime}, {outcome}: {predictors_lines.TITLES[best.predictor]} ({took})")
    return f"The cheapest with p of the best below 0.05: {'; '.join(texts) or 'none'}."


def _borrowed(run: Run, regime: str) -> bool:
    """Whether a predictor comes from the regime with the same task vectors."""
    return any(
        run.data(group, regime) is None and run.results.twin(group, regime) is not None
        for group in ("tau_jp", "similarity")
    )


def merge_table(run: Run) -> Table:
    table = Table(
        "merge_predictors",
        "What predicts a merge's normalised accuracy, for tasks that the prediction has not seen",
        [
            Column("regime"),
            Column("merges"),
            Column("predictor"),
            Column("outcomes"),
            Column("error without", 2, percent=True),
            Column("error with", 2, percent=True),
            Column("gain", 2),
            Column("p", 3, least=True),
        ],
    )
    for row in merge_rows.rows(run):
        estimate = row.prediction
        cells = [estimate.without, estimate.with_it, estimate.gain, estimate.p]
        table.rows.append([row.regime, row.merges, TITLES[row.predictor], estimate.merges, *cells])
    if table.rows:
        level = 1 - sampling.LEVEL
        borne_out = sum(row.prediction.p < level and row.prediction.gain > 0 for row in merge_rows.rows(run))
        table.notes += [
            "A line is fitted to the merges without one task and predicts those with it, for each task."
            " error: root of the mean square, in points of normalised accuracy; without: by the number of"
            " tasks, or the mean where all merges have as many. gain: the part of the squared error that the"
            " predictor takes away; below 0 it predicts worse than nothing does.",
            "Predictor of a merge: mean over its pairs; of a task in a merge of all: over its pairs.",
            f"p: the share of {prediction.PERMUTATIONS} permutations of the tasks, and these themselves, with"
            f" an error as small. It is not corrected: of {len(table.rows)} lines"
            f" {level * len(table.rows):.1f} are below {level:.2g} by chance, and {borne_out} are, with a"
            " gain. One seed.",
        ]
    return table


TABLES = {"predictors": predictor_table, "merge_predictors": merge_table}
