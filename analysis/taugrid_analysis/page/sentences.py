# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The run's main findings as plain sentences, each computed from its numbers."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.numbers import means, sampling
from taugrid_analysis.numbers.means import mean
from taugrid_analysis.quantities.disentanglement import xi
from taugrid_analysis.quantities.negation.columns import part_of_tasks
from taugrid_analysis.quantities.ntk import shares
from taugrid_analysis.quantities.predictors import lines
from taugrid_analysis.quantities.smoothness.bounds import bounds
from taugrid_analysis.run.opened import Run


def sentences(run: Run) -> list[str]:
    parts = [
        _single(run),
        _addition(run),
        _negation(run),
        *_disentanglement(run),
        _vectors(run),
        _predictors(run),
        _bound(run),
        _ntk(run),
        _care(run),
    ]
    return [part for part in parts if part]


def _list(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _number(run: Run, regime: str, column: str) -> str:
    """0.563 ± 0.008, the error where it is known."""
    row = run.summary.loc[regime]
    error = row.get(f"{column}_error", np.nan)
    return f"{row[column]:.3f}" + (f" ± {error:.3f}" if np.isfinite(error) else "")


def _known(run: Run, column: str, names: list[str]) -> list[str]:
    return [
        name for name in names if name in run.summary.index and np.isfinite(run.summary.loc[name][column])
    ]


def _single(run: Run) -> str:
    start = _known(run, "single", [run.results.start])
    trained = [f"{_number(run, name, 'single')} ({name})" for name in _known(run, "single", run.regimes)]
    if not start or not trained:
        return ""
    return (
        f"Fine-tuned one task at a time, mean test accuracy over {len(run.results.tasks)} tasks goes from"
        f" {_number(run, run.results.start, 'single')} to {_list(trained)}."
    )


def _addition(run: Run) -> str:
    parts = []
    for name in _known(run, "absolute", run.results.names("addition")):
        row = run.summary.loc[name]
        parts.append(
            f"{_number(run, name, 'absolute')} for {name} (α = {row['chosen_alpha']:g},"
            f" {100 * row['normalized']:.1f} % of the single-task models)"
        )
    return f"One model with all task vectors added reaches {_list(parts)}." if parts else ""


def _negation(run: Run) -> str:
    parts = []
    for name in _known(run, "negated", run.results.names("negation")):
        control = _number(run, name, "negated_control")
        part = part_of_tasks(run.summary.loc[name]["kept"], len(run.results.tasks))
        of = f"{name}, mean of {part}" if part else name
        parts.append(f"{_number(run, name, 'negated')} ({of}, control {control})")
    return f"A task vector subtracted leaves its task at {_list(parts)}." if parts else ""


def _predictors(run: Run) -> str:
    """The strongest rank correlation of each regime that task permutations reach in fewer than 5 %."""
    best: dict[str, lines.Line] = {}
    tested = set()
    for line in lines.lines(run):
        if line.outcome != next(iter(lines.OUTCOMES)) or line.predictor not in lines.TITLES:
            continue
        if not np.isfinite(line.spearman.best):
            continue
        tested.add(line.regime)
        if line.spearman.best >= 1 - sampling.LEVEL:
            continue
        if line.regime not in best or abs(line.spearman.value) > abs(best[line.regime].spearman.value):
            best[line.regime] = line
    parts = [
        f"{lines.TITLES[line.predictor]} ({regime}, rank correlation {line.spearman.value:+.2f}, p"
        f" {line.spearman.best:.3f} by task permutations, corrected for {line.looked} correlations)"
        for regime, line in best.items()
    ]
    if parts:
        return f"The normalised accuracy of a pair's sum goes most with {_list(parts)}."
    if tested:
        return (
            "Nothing measured without the outcome predicts the normalised accuracy of a pair's sum beyond"
            " what permutations of the tasks reach in 5 %."
        )
    return ""


def _disentanglement(run: Run) -> list[str]:
    names = run.results.names("disentanglement")
    ones = {name: run.pairs.loc[name]["xi_one"].to_numpy(dtype=float) for name in names}
    known = [name for name in names if np.isfinite(ones[name]).any()]
    parts = [f"{_number(run, name, 'xi_one')} ({name})" for name in known]
    sentences = (
        [f"Two whole task vectors together, ξ(1,1) averages {_list(parts)} over the pairs."] if parts else []
    )
    if not names:
        return []
    base = "standard" if "standard" in names else names[0]
    grids = {name: grid for name in names if (grid := run.data("disentanglement", name)) is not None}
    similar = {name: data for name in names if (data := run.data("similarity", name)) is not None}
    for name in names:
        if name == base or not (np.isfinite(ones[name]) & np.isfinite(ones[base])).all():
            continue
        lower = int(np.sum(ones[name] < ones[base]))
        sentence = f"At (1,1) {name} is lower than {base} in {lower} of {len(run.results.pairs)} pairs"
        two = {key: grids[key] for key in (base, name)}
        common = xi.matched_norm(two, similar, run.results.pairs)
        if common is not None and len(common.error) == 2:
            mine, theirs = common.error[name].mean(axis=1), common.error[base].mean(axis=1)
            fewer = int(np.sum(mine < theirs - 1e-12))
            sentence += (
                f"; at matched norm, averaged along the diagonal up to a step of {common.length[-1]:.2f}, it"
                f" has {mean(mine):.3f} against {mean(theirs):.3f} and is lower in {fewer}"
            )
        sentences.append(sentence + ".")
    return sentences


def _vectors(run: Run) -> str:
    parts = []
    for name in run.results.names("similarity"):
        data = run.data("similarity", name)
        if data is not None:
            largest = float(np.nanmax(np.abs(means.off_diagonal(data["cosine"].to_numpy())), initial=0))
            cosines = f" and cosines up to {largest:.3f}" if len(run.results.tasks) > 1 else ""
            parts.append(f"mean norm {mean(data['norm'].to_numpy()):.2f}{cosines} ({name})")
    return f"Task vectors have {_list(parts)}." if parts else ""


def _bound(run: Run) -> str:
    parts = []
    for name in run.results.names("smoothness"):
        gaps = bounds(run, name)
        if gaps is not None:
            holds = int((gaps["tightness"] <= 1).sum())
            parts.append(
                f"{name}, {holds} of {len(gaps)} gaps, which are {100 * gaps['tightness'].median():.2g} %"
                " of it in the median"
            )
    return f"The bound L C (1+ε) on a task's loss gap holds for {'; '.join(parts)}." if parts else ""


def _ntk(run: Run) -> str:
    parts = []
    for start in run.results.names("ntk"):
        data = run.data("ntk", start)
        if data is None or len(run.results.tasks) < 2:
            continue
        share, null = shares.own_share(data["local_energy"].to_numpy()), shares.null_share(data)
        text = f"{mean(share.ravel()):.3f} of the local energy at the {start} θ0"
        if null is None:
            parts.append(f"{text} (its null was not measured, so this alone shows no localisation)")
        else:
            spread = f" ± {mean(null[1]):.3f}" if np.isfinite(null[1]).any() else ""
            parts.append(f"{text} (null, with more of the same task as control: {mean(null[0]):.3f}{spread})")
    return f"The trained task's own points hold {_list(parts)}." if parts else ""


def _care(run: Run) -> str:
    """What these numbers cannot say."""
    errors = [
        float(np.nanmax(values))
        for name in run.results.names("disentanglement")
        if np.isfinite(values := run.pairs.loc[name]["xi_one_error"].to_numpy(dtype=float)).any()
    ]
    parts = []
    if errors:
        parts.append(f"a single pair's ξ(1,1) has a standard error of up to {max(errors):.3f}")
    seeds = run.results.seeds()
    if len(seeds) == 1:
        parts.append("all comes from one seed, and ± is of the evaluation sample alone")
    elif not seeds:
        parts.append("the file names no seed")
    if run.missing:
        parts.append(f"the file is older and lacks {len(run.missing)} numbers, which a table lists")
    text = "; ".join(parts)
    return f"Read with care: {text}." if text else ""
