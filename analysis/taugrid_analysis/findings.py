# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The run's main findings as plain sentences, each computed from its numbers."""

from __future__ import annotations

import numpy as np

from taugrid_analysis import measures, outcomes, predictors
from taugrid_analysis.correlation import rank_correlation
from taugrid_analysis.figures.tasks import loss_gaps
from taugrid_analysis.measures import mean
from taugrid_analysis.results import Results


def findings(results: Results) -> list[str]:
    parts = [
        _single(results),
        _addition(results),
        _negation(results),
        *_disentanglement(results),
        _vectors(results),
        _predictors(results),
        _smoothness(results),
        _ntk(results),
        _care(results),
    ]
    return [part for part in parts if part]


def _list(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _single(results: Results) -> str:
    start = results.single_task(results.start)
    records = [(name, results.single_task(name)) for name in results.regimes]
    trained = [f"{mean(record.accuracy):.3f} ({name})" for name, record in records if record is not None]
    if start is None or not trained:
        return ""
    return (
        f"Fine-tuned one task at a time, mean test accuracy over {len(results.tasks)} tasks goes from"
        f" {mean(start.accuracy):.3f} to {_list(trained)}."
    )


def _addition(results: Results) -> str:
    parts = []
    for name in results.names("addition"):
        record = results.addition(name)
        if record is not None:
            parts.append(
                f"{record.absolute:.3f} for {name} (α = {record.chosen_alpha:g},"
                f" {100 * record.normalized:.1f} % of the single-task models)"
            )
    return f"One model with all task vectors added reaches {_list(parts)}." if parts else ""


def _negation(results: Results) -> str:
    parts = []
    for name in results.names("negation"):
        record = results.negation(name)
        found = outcomes.forgetting(record.narrow) if record is not None else None
        if found is not None and found.kept:
            parts.append(f"{found.target:.3f} ({name}, control {found.control:.3f})")
    return f"A task vector subtracted leaves its task at {_list(parts)}." if parts else ""


def _predictors(results: Results) -> str:
    """The strongest rank correlation of each regime whose interval leaves 0 out."""
    best: dict[str, predictors.Line] = {}
    for line in predictors.lines(results):
        if line.outcome != predictors.OUTCOMES[0] or not line.spearman.low * line.spearman.high > 0:
            continue
        if line.regime not in best or abs(line.spearman.value) > abs(best[line.regime].spearman.value):
            best[line.regime] = line
    parts = [
        f"{predictors.TITLES[line.predictor]} ({regime}, rank correlation {line.spearman.value:+.2f})"
        for regime, line in best.items()
    ]
    return f"The normalised accuracy of a pair's sum goes most with {_list(parts)}." if parts else ""


def _disentanglement(results: Results) -> list[str]:
    names = results.names("disentanglement")
    grids = {name: grid for name in names if (grid := results.disentanglement(name)) is not None}
    if not grids:
        return []
    ones = {name: measures.at(grid, 1.0, 1.0) for name, grid in grids.items()}
    parts = [f"{mean(one):.3f} ({name})" for name, one in ones.items() if np.isfinite(one).any()]
    sentences = (
        [f"Two whole task vectors together, ξ(1,1) averages {_list(parts)} over the pairs."] if parts else []
    )
    base = "standard" if "standard" in grids else names[0]
    similar = {name: record for name in names if (record := results.similarity(name)) is not None}
    for name in names:
        if name == base or not (np.isfinite(ones[name]) & np.isfinite(ones[base])).all():
            continue
        lower = int(np.sum(ones[name] < ones[base]))
        sentence = f"At (1,1) {name} is lower than {base} in {lower} of {len(results.pairs)} pairs"
        two = {key: grids[key] for key in (base, name)}
        common = measures.matched_norm(two, similar, results.pairs)
        if common is not None and len(common.error) == 2:
            mine, theirs = common.error[name].mean(axis=1), common.error[base].mean(axis=1)
            fewer = int(np.sum(mine < theirs - 1e-12))
            sentence += (
                f"; at matched norm, averaged along the diagonal up to a step of {common.length[-1]:.2f},"
                f" it has {mean(mine):.3f} against {mean(theirs):.3f} and is lower in {fewer}"
            )
        sentences.append(sentence + ".")
    return sentences


def _vectors(results: Results) -> str:
    parts = []
    for name in results.names("similarity"):
        record = results.similarity(name)
        if record is not None:
            largest = float(np.nanmax(np.abs(measures.off_diagonal(record.cosine)), initial=0))
            cosines = f" and cosines up to {largest:.3f}" if len(results.tasks) > 1 else ""
            parts.append(f"mean norm {mean(record.norm):.2f}{cosines} ({name})")
    return f"Task vectors have {_list(parts)}." if parts else ""


def _smoothness(results: Results) -> str:
    parts = []
    for name in results.names("smoothness"):
        both = loss_gaps(results, name)
        if both is not None:
            parts.append(f"{rank_correlation(*both):+.2f} ({name})")
    return f"λmax and the loss gap of a pair have rank correlation {_list(parts)}." if parts else ""


def _ntk(results: Results) -> str:
    parts = []
    for start in results.names("ntk"):
        record = results.ntk(start)
        if record is not None and len(results.tasks) > 1:
            share = measures.own_share(record.local_energy)
            parts.append(f"{mean(share.ravel()):.3f} of the local energy at the {start} θ0")
    return f"The trained task's own points hold {_list(parts)} (0.5: not localised)." if parts else ""


def _care(results: Results) -> str:
    """What these numbers cannot say."""
    samples = [
        grid.samples for name in results.names("disentanglement") if (grid := results.disentanglement(name))
    ]
    known = [count for count in samples if count]
    parts = []
    if known:
        parts.append(
            f"a single pair's ξ, from {min(known)} points a task, has a standard error of up to"
            f" {(0.5 / min(known)) ** 0.5:.3f}"
        )
    seeds = results.seeds()
    if len(seeds) == 1:
        parts.append("all comes from one seed, so differences between regimes carry no error bar")
    elif not seeds:
        parts.append("the file names no seed")
    text = "; ".join(parts)
    return f"Read with care: {text}." if text else ""
