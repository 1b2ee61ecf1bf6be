# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the bases paper says in sentences, captions and pictures, and what this run says of the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from taugrid_analysis.numbers import means as numbers_means
from taugrid_analysis.numbers.correlation import rank_correlation
from taugrid_analysis.numbers.means import off_diagonal
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.papers import BASES, published
from taugrid_analysis.quantities.bases import partitions
from taugrid_analysis.quantities.bases.tables import members
from taugrid_analysis.quantities.every_partition import forgetting
from taugrid_analysis.quantities.smoothness import magnitude
from taugrid_analysis.run.opened import Run


def said(run: Run) -> Table:
    table = Table(
        "said",
        "Bases paper, figures, captions and sentences beside what this run shows",
        [Column("place"), Column("published"), Column("ours")],
    )
    for sentence in published.said(BASES):
        table.rows.append([sentence.place, sentence.says, OURS[sentence.measure](run)])
    table.notes.append(
        "Ours of standard fine-tuning where nothing else is said. Rank correlation: Spearman's. Clusters at"
        " the k that the largest gap of the Laplacian's eigenvalues chose."
    )
    return table


def _single_negation(run: Run) -> str | None:
    parts = []
    for regime in ("standard", "linear"):
        if alone := _alone(run, regime):
            parts.append(alone)
            continue
        data = run.data("negation", regime)
        if data is None:
            continue
        names = [task.lower() for task in run.results.tasks]
        if "mnist" in names:
            parts.append(f"{regime} {100 * float(data['target'][names.index('mnist')]):.2f}")
        else:
            parts.append(
                f"{regime} {100 * numbers_means.mean(data['target'].to_numpy()):.1f}, mean over tasks"
            )
    return "; ".join(parts) or None


def _alone(run: Run, regime: str) -> str | None:
    """What the first of four tasks keeps, by the cluster that it is alone."""
    for name in run.results.by_method(forgetting.GROUP):
        method, _, stored_regime = name.partition("/")
        if stored_regime == regime and regime in forgetting.lettered(run.results, method):
            left = forgetting.of_cluster(run.results, name, [True, False, False, False], "target")
            data = run.data(forgetting.GROUP, name)
            return None if left is None or data is None else f"{regime} {left:.2f}, {data.attrs['task']}"
    return None


def _zero_shot(run: Run) -> str | None:
    data = run.data("single_task", run.results.start)
    if data is None:
        return None
    value = dict(zip([task.lower() for task in run.results.tasks], data["accuracy"].to_numpy(), strict=True))
    named = [f"{name} {100 * value[name]:.2f}" for name in ("gtsrb", "dtd") if name in value]
    return ", ".join(named) or f"mean over tasks {100 * numbers_means.mean(value.values()):.1f}"


def _bound(run: Run) -> str | None:
    """With the largest L, C and |cos|, as the theorem takes them."""
    vectors, curvature = run.data("similarity", "standard"), run.data("smoothness", "standard")
    if vectors is None or curvature is None or len(run.results.tasks) < 2:
        return None
    top = float(magnitude(curvature).max())
    long = float((vectors["norm"] ** 2).max())
    near = float(np.abs(off_diagonal(vectors["cosine"].to_numpy())).max())
    text = f"{top * long * (1 + near):.4g} with L = {top:.3g}, C = {long:.3g}, ε = {near:.2f}"
    gap = float(vectors["loss_gap"].max()) if "loss_gap" in vectors else float("nan")
    return f"{text}; largest gap of a pair {gap:.2f}" if np.isfinite(gap) else text


def _gap_by_cosine(run: Run) -> str | None:
    measured = partitions.gaps(run, "standard")
    if measured is None:
        return None
    held = [np.isfinite(x) & np.isfinite(y) for x, y in zip(*measured, strict=True)]
    ranks = [rank_correlation(x[h], y[h]) for x, y, h in zip(*measured, held, strict=True)]
    known = [value for value in ranks if np.isfinite(value)]
    if not known:
        return None
    ends = f"by task {min(known):+.2f} to {max(known):+.2f}"
    text = f"rank correlation of |cosine| and gap {np.mean(known):+.2f}, {ends}"
    names = [task.lower() for task in run.results.tasks]
    return f"{text}; MNIST {ranks[names.index('mnist')]:+.2f}" if "mnist" in names else text


def _cosines(run: Run) -> str | None:
    data = run.data("similarity", "standard")
    if data is None or len(run.results.tasks) < 2:
        return None
    values = off_diagonal(data["cosine"].to_numpy())
    text = f"of one θ0: {values.min():.2f} to {values.max():.2f}"
    mixed = run.data("mixed_starts", "standard")
    if mixed is None:
        return text
    count = len(run.results.tasks)
    across = mixed["cosine"].to_numpy()[:count, count:]
    return f"{text}; of two: {across.min():.2f} to {across.max():.2f}"


def _norms(run: Run) -> str | None:
    data = run.data("similarity", "standard")
    if data is None:
        return None
    norm, ratio = data["norm"].to_numpy(), data["norm_ratio"].to_numpy()
    text = f"‖τ‖ {norm.min():.2f} to {norm.max():.2f}, ‖θ0‖ {float(norm[0] / ratio[0]):.1f}"
    mixed = run.data("mixed_starts", "standard")
    return text if mixed is None else f"{text}; the two θ0 are {float(mixed['distance']):.1f} apart"


def _gap_by_curvature(run: Run) -> str | None:
    measured, curvature = partitions.gaps(run, "standard"), run.data("smoothness", "standard")
    if measured is None or curvature is None:
        return None
    gap = np.array([numbers_means.mean(row) for row in measured[1]])
    rank = rank_correlation(magnitude(curvature), gap)
    return (
        f"over tasks of one θ0: rank correlation of |λ_max| and mean gap {rank:+.2f}"
        if np.isfinite(rank)
        else None
    )


def _clusters(regime: str) -> Callable[[Run], str | None]:
    def of(run: Run) -> str | None:
        data = run.data("bases", regime)
        if data is None:
            return None
        count = partitions.chosen(data)
        labels = partitions.spectral(data, count)
        return None if labels is None else f"k = {count}: {members(labels, run.results.tasks)}"

    return of


def _early_clusters(run: Run) -> str | None:
    data = run.data("early_similarity", "standard")
    if data is None:
        return None
    labels, shares = data["labels"].to_numpy().astype(int), data["rand_index"].to_numpy()
    marks = str(data.attrs["marks"]).split(", ")
    parts = [f"{mark}: Rand index {share:.2f}" for mark, share in zip(marks[:-1], shares, strict=False)]
    return f"{'; '.join(parts)}; end: {members(labels[-1], run.results.tasks)}"


def _best_k(run: Run) -> str | None:
    data = run.data("bases", "standard")
    if data is None:
        return None
    spectral = data["absolute"].to_numpy()[:, 0].astype(float)
    clusters = data["clusters"].to_numpy().astype(int)
    best = int(np.nanargmax(spectral))
    count = partitions.chosen(data)
    inside, outside = partitions.merges(data)
    text = f"{inside}, then {outside}: best at k = {clusters[best]} ({100 * spectral[best]:.1f})"
    if count in clusters:
        text += f", chosen k = {count} ({100 * spectral[list(clusters).index(count)]:.1f})"
    held = partitions.merged(data)
    start, majority = run.data("single_task", run.results.start), run.results.majority()
    if start is not None:
        text += f"; θ0 {100 * float(start['accuracy'].to_numpy()[held].mean()):.1f}"
    return text if majority is None else f"{text}, majority {100 * float(majority[held].mean()):.1f}"


def _storage(run: Run) -> str | None:
    data = run.data("bases", "standard")
    if data is None:
        return None
    count, tasks = partitions.chosen(data), int(partitions.merged(data).sum())
    return f"{count} of {tasks}: {100 * (1 - count / tasks):.2f} % saved"


def _nearest_basis(run: Run) -> str | None:
    by_method = {"Mean": {entry.task: entry.basis for entry in partitions.nearest(run, "standard")}}
    lines = []
    for method, tasks in (partitions.nearest_by_method(run, "standard") or by_method).items():
        means = sorted(((float(cosines.mean()), task) for task, cosines in tasks.items()), reverse=True)
        if means:
            lines.append(f"{method}: " + ", ".join(f"{task} {mean:.2f}" for mean, task in means))
    return "; ".join(lines) or None


OURS: dict[str, Callable[[Run], str | None]] = {
    "single_negation": _single_negation,
    "zero_shot": _zero_shot,
    "bound": _bound,
    "gap_by_cosine": _gap_by_cosine,
    "cosines": _cosines,
    "norms": _norms,
    "gap_by_curvature": _gap_by_curvature,
    "clusters": _clusters("standard"),
    "early_clusters": _early_clusters,
    "best_k": _best_k,
    "storage": _storage,
    "nearest_basis": _nearest_basis,
    "tangent_clusters": _clusters("linear"),
}
