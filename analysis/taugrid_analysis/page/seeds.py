# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs of one experiment side by side: means over seeds, what spreads them, does task arithmetic show?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from taugrid_analysis.numbers.correlation import NOTHING, Estimate
from taugrid_analysis.numbers.means import mean
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.cells import cell
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.quantities.disentanglement import xi
from taugrid_analysis.quantities.penalty.form import penalty_form
from taugrid_analysis.quantities.predictors import lines
from taugrid_analysis.run import differences
from taugrid_analysis.run.accuracies import accuracies
from taugrid_analysis.run.configuration import TAKEN, configuration
from taugrid_analysis.run.opened import Run
from taugrid_analysis.run.several_seeds import SEED

GAIN = 0.15  # what fine-tuning adds to the mean accuracy
RECOVERED = 1 / 3  # the summed task vectors' part of that gain
NEAR = 0.5  # ξ(α,α) at this α, against the grid's far corner


@dataclass(frozen=True)
class Summary:
    """One regime of one run; accuracies are means over tasks, ξ means over pairs."""

    run: Run
    start: str  # pretrained or random
    regime: str
    penalty: str  # its form, where the regime has a penalty
    seed: str
    zero_shot: float
    single: float
    gain: float  # single − zero_shot
    added: float  # θ0 + α Σ τ at the chosen α
    alpha: float
    normalized: float
    near: float
    one: float
    far: float
    norm: float
    matched: float  # ξ(α,α) averaged up to a length of the step that both regimes reach
    setting: dict[str, str]  # tasks and configuration, but for the seed

    @property
    def recovered(self) -> float:
        return (self.added - self.zero_shot) / self.gain if self.gain > 0 else float("nan")

    @property
    def kind(self) -> tuple[str, str, str]:
        """What runs that differ by their seed alone have in common."""
        return self.start, self.regime, self.penalty


def summaries(run: Run) -> list[Summary]:
    results = run.results
    grids = {name: grid for name in run.regimes if (grid := run.data("disentanglement", name)) is not None}
    similar = {name: data for name in run.regimes if (data := run.data("similarity", name)) is not None}
    matched = xi.matched_norm(grids, similar, results.pairs)
    lengths = matched.error if matched is not None else {}
    setting = _setting(run)
    entries = []
    for name in results.names("addition"):
        row, start, grid = run.summary.loc[name], run.summary.loc[results.start], grids.get(name)
        if grid is None or not np.isfinite([row["single"], start["single"]]).all():
            continue
        corner = float(grid["alpha_1"].to_numpy()[-1])
        form, gain = penalty_form(run, name), differences.single(results, name, results.start)
        entries.append(
            Summary(
                run=run,
                start=results.start,
                regime=name,
                penalty=form.title,
                seed=" ".join(results.seeds()),
                zero_shot=cell(start, "single"),
                single=cell(row, "single"),
                gain=Measured(gain.mean, gain.mean_error),
                added=cell(row, "absolute"),
                alpha=float(row["chosen_alpha"]),
                normalized=cell(row, "normalized"),
                near=mean(xi.at(grid, NEAR, NEAR)),
                one=cell(row, "xi_one"),
                far=mean(xi.at(grid, corner, corner)),
                norm=float(row["norm"]),
                matched=mean(lengths[name].ravel()) if name in lengths else float("nan"),
                setting=setting,
            )
        )
    return entries


def _setting(run: Run) -> dict[str, str]:
    known = configuration(run.path.with_name("config.toml"))
    return {"tasks": ", ".join(run.results.tasks)} | {
        k: v for k, v in known.items() if k not in (SEED, *TAKEN)
    }


def _apart(group: Sequence[Summary]) -> str:
    """The first key in which runs of one experiment differ, with its values; empty: in none."""
    settings = [entry.setting for entry in group]
    for key in sorted(set().union(*settings)):
        values = dict.fromkeys(setting.get(key, "not there") for setting in settings)
        if len(values) > 1:
            return f"{key} is {' and '.join(values)}"
    return ""


COLUMNS = [
    ("zero_shot", 1, True),
    ("single", 1, True),
    ("gain", 1, True),
    ("added", 1, True),
    ("recovered", 0, True),
    ("normalized", 1, True),
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
GROUPS = {
    "zero_shot": "single_task",
    "single": "single_task",
    "gain": "single_task",
    "added": "addition",
    "normalized": "addition",
}


def table(entries: list[Summary]) -> Table:
    """A row a run and regime; then over the seeds the mean, the deviation and its two parts.

    Runs of one seed are one seed: where any is there twice, nothing is taken over seeds.
    """
    columns = [Column(HEADINGS.get(name, name), digits, percent=percent) for name, digits, percent in COLUMNS]
    result = Table(
        "seeds",
        "Runs side by side; accuracies are means over tasks, ξ means over pairs",
        [Column("start"), Column("regime"), Column("penalty"), Column("seed"), *columns],
        notes=[
            "gain: single − zero_shot; added: θ0 + α Σ τ at the α chosen on validation; recovered: its part"
            " of the gain; normalized: over the tasks' own models.",
            "ξ at equal ‖τ‖: along the diagonal, averaged up to a step's length that both regimes reach.",
            "±: of a seed, one standard error of its evaluation sample; of the mean, the deviation over"
            " √seeds.",
            "sampling: what the seeds' own evaluation samples add to the deviation, less for points that they"
            " share; training: the rest, √(deviation² − sampling²), 0 where sampling alone explains it.",
        ],
    )
    for kind in dict.fromkeys(entry.kind for entry in entries):
        group = [entry for entry in entries if entry.kind == kind]
        numbers = np.array([[float(getattr(entry, name)) for name, _, _ in COLUMNS] for entry in group])
        for entry in group:
            result.rows.append([*kind, entry.seed, *[getattr(entry, name) for name, _, _ in COLUMNS]])
        again = sorted(
            {entry.seed for entry in group if sum(other.seed == entry.seed for other in group) > 1}
        )
        if again:
            twice = ", ".join(again) or "unknown"
            result.notes.append(
                f"{' '.join(kind).strip()}: seed {twice} is there more than once: no mean over seeds."
            )
        elif len(group) > 1 and (apart := _apart(group)):
            result.notes.append(f"{' '.join(kind).strip()}: {apart}: no mean over seeds.")
        elif len(group) > 1:
            deviation = numbers.std(axis=0, ddof=1)
            sampled = np.array([_sampling(group, name) for name, _, _ in COLUMNS])
            trained = np.sqrt(np.clip(deviation**2 - sampled**2, 0, None))
            over = deviation / np.sqrt(len(group))
            means = [Measured(value, error) for value, error in zip(numbers.mean(axis=0), over, strict=True)]
            result.rows.append([*kind, "mean", *means])
            for title, values in (("deviation", deviation), ("… sampling", sampled), ("… training", trained)):
                result.rows.append([*kind, title, *values.tolist()])
    return result


def _sampling(group: Sequence[Summary], name: str) -> float:
    """Deviation between seeds that different evaluation points cause alone; NaN where it is not known."""
    errors = [getattr(entry, name).error for entry in group if isinstance(getattr(entry, name), Measured)]
    if name not in GROUPS or len(errors) < len(group) or not np.isfinite(errors).all():
        return float("nan")
    shared = mean(_overlap(a, b, GROUPS[name]) for a, b in combinations(group, 2))
    return float(np.sqrt(np.mean(np.square(errors)) * (1 - shared)))


def _overlap(first: Summary, second: Summary, group: str) -> float:
    """Part of the test points that two runs have in common, mean over tasks: those do not spread them."""
    rows = []
    for entry in (first, second):
        scores = accuracies(
            entry.run.results, group, entry.regime, "accuracy" if group == "single_task" else "test_accuracy"
        )
        rows.append(
            [scores.rows_of(t) if scores is not None else None for t in range(len(entry.run.results.tasks))]
        )
    shares = [
        len(np.intersect1d(a, b)) / max(len(a), len(b), 1)
        for a, b in zip(*rows, strict=False)
        if a is not None and b is not None
    ]
    return mean(shares) if shares else 0.0


def criteria(entries: list[Summary]) -> Table:
    """Whether task arithmetic shows, by start and regime: in how many of the runs."""
    result = Table(
        "criteria",
        "Task arithmetic shows?",
        [
            Column("criterion"),
            Column("start"),
            Column("regime"),
            Column("penalty"),
            Column("least", 3),
            Column("largest", 3),
            Column("holds"),
        ],
    )
    checks: list[tuple[str, Callable[[Summary], float], float]] = [
        (f"gain ≥ {100 * GAIN:.0f} points", lambda entry: entry.gain, GAIN),
        ("recovered ≥ 1/3", lambda entry: entry.recovered, RECOVERED),
        ("ξ far corner − near > 0", lambda entry: entry.far - entry.near, 0.0),
    ]
    for title, value, limit in checks:
        for kind in dict.fromkeys(entry.kind for entry in entries):
            values = [value(entry) for entry in entries if entry.kind == kind]
            holds = sum(v >= limit if limit > 0 else v > 0 for v in values)
            row: list[Value] = [
                title,
                *kind,
                float(min(values)),
                float(max(values)),
                f"{holds} of {len(values)}",
            ]
            result.rows.append(row)
    return result


def predictor_table(runs: Sequence[Run]) -> Table:
    """What predicts interference, a column a run: what holds in one seed need not hold in the next."""
    names = [_seed_name(run, place, runs) for place, run in enumerate(runs)]
    result = Table(
        "predictors",
        "What predicts interference, run by run: Spearman's correlation with the normalised accuracy of a"
        " pair's sum, or its loss gap",
        [
            *[Column(name) for name in ("start", "regime", "outcome", "predictor")],
            *[Column(name, 2) for name in names],
            Column("mean", 2),
            Column("same sign"),
            Column("largest p of the best", 4, least=True),
        ],
    )
    by_run = [_correlations(run) for run in runs]
    for key in dict.fromkeys(key for estimates in by_run for key in estimates):
        both = [estimates.get(key, NOTHING) for estimates in by_run]
        known = [estimate.value for estimate in both if np.isfinite(estimate.value)]
        if not known:
            continue
        best = [estimate.best for estimate in both if np.isfinite(estimate.best)]
        agree = max(sum(value > 0 for value in known), sum(value < 0 for value in known))
        row: list[Value] = [
            *key,
            *(estimate.value for estimate in both),
            mean(known),
            f"{agree} of {len(known)}",
        ]
        result.rows.append([*row, max(best) if len(best) == len(known) else None])
    if result.rows:
        result.notes.append(
            "p of the best: Mantel's test in each run, corrected for the best of the predictors and"
            " outcomes; the largest of all runs. *: no predictor, another measure of the same thing."
        )
    return result


def _correlations(run: Run) -> dict[tuple[str, str, str, str], Estimate]:
    """(start, regime, outcome, predictor): Spearman's."""
    titles = lines.TITLES | {key: f"{title} *" for key, title in lines.SAME_THING.items()}
    return {
        (run.results.start, line.regime, line.outcome, titles[line.predictor]): line.spearman
        for line in lines.lines(run)
    }


def _seed_name(run: Run, place: int, runs: Sequence[Run]) -> str:
    """The seed, and the folder where seeds repeat."""
    seed = " ".join(run.results.seeds()) or "unknown"
    repeats = sum(other.results.seeds() == run.results.seeds() for other in runs) > 1
    return f"seed {seed}" + (f" ({place + 1}: {run.name})" if repeats else "")
