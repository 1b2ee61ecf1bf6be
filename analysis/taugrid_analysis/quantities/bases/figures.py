# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Task vector bases (paper 2): loss gaps by cosine and curvature, norms, clusters, accuracy by k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.numbers.correlation import rank_correlation
from taugrid_analysis.page import matrices, style
from taugrid_analysis.quantities.bases import partitions
from taugrid_analysis.quantities.similarity import figures as similarity_figures
from taugrid_analysis.run.opened import Run

REGIME = "standard"
MARKERS = "osD^v"
PAPERS_CLUSTERS = (3, 10)  # of its 70 language tasks, figure 7
NUMBERED = 12  # tasks of a matrix whose cells leave room for numbers


def _central(run: Run, wanted: str, cosine: Floats) -> int:
    """The paper's task where the run has it, else the one that resembles another most."""
    names = [task.lower() for task in run.results.tasks]
    if wanted in names:
        return names.index(wanted)
    return int(np.nanargmax(np.nanmax(np.where(np.isfinite(cosine), cosine, -1), axis=1)))


def gap_by_cosine(runs: Sequence[Run]) -> Figure | None:
    """Figure 3: of one task's vector added to another's, the loss gap over their cosine; a marker a run."""
    known = [(run, gaps) for run in runs if (gaps := partitions.gaps(run, REGIME)) is not None]
    known = [(run, gaps) for run, gaps in known if np.isfinite(gaps[1]).any()]
    if not known:
        return None
    with style.settings():
        figure = Figure(figsize=(6.4, 4.2))
        axes = figure.subplots()
        for place, (run, (cosine, gap)) in enumerate(known):
            task = _central(run, "mnist", cosine)
            x, y = cosine[task], gap[task]
            held = np.isfinite(x) & np.isfinite(y)
            name, tint = run.results.tasks[task], style.KIND_COLOURS[place % len(style.KIND_COLOURS)]
            title = f"{style.run_title(run, runs)}: {name}" if len(runs) > 1 else name
            rank = rank_correlation(x[held], y[held])
            label = f"{title}, rank corr. {rank:+.2f}" if np.isfinite(rank) else title
            axes.scatter(x[held], y[held], s=30, color=tint, marker=MARKERS[place % 5], label=label)
            for other in np.flatnonzero(held):
                axes.annotate(
                    run.results.tasks[other],
                    (x[other], y[other]),
                    fontsize=7,
                    xytext=(4, 3),
                    textcoords="offset points",
                )
        axes.set(xlabel="|cosine| with the other task's vector", ylabel="loss gap at θ0 + ½ (τ₁ + τ₂)")
        axes.legend(loc="best", fontsize=8)
        style.grid(axes, "both")
    return figure


def similarity(run: Run) -> Figure | None:
    """Figure 4: cosines of the vectors of one θ0, and, where there is a second, of and between both."""
    data = run.data("mixed_starts", REGIME)
    if data is None:
        return similarity_figures.cosines(run, [REGIME])
    cosine, names = data["cosine"].to_numpy().astype(float).copy(), run.results.tasks
    count = len(names)
    np.fill_diagonal(cosine, np.nan)
    top = max(0.05, float(np.nanmax(np.abs(cosine))))
    with style.settings():
        figure = Figure(figsize=(6.8, 6.0))
        axes = figure.subplots()
        image = axes.imshow(cosine, cmap=style.SIGNED_MAP, vmin=-top, vmax=top, interpolation="none")
        matrices.label(axes, [f"{name} {start}" for start in (1, 2) for name in names])
        axes.tick_params(labelsize=7 if count <= NUMBERED else 3)
        axes.axhline(count - 0.5, color=style.INK, linewidth=1)
        axes.axvline(count - 0.5, color=style.INK, linewidth=1)
        axes.set_title("cosine of task vectors of two pre-trained models, 1 and 2")
        figure.colorbar(image, ax=axes, shrink=0.8, pad=0.015).outline.set_visible(False)
    return figure


def gap_by_curvature(runs: Sequence[Run]) -> Figure | None:
    """Figure 6: a bar a partner and run of one task's loss gap, the task's λ_max in the legend."""
    known = [(run, gaps) for run in runs if (gaps := partitions.gaps(run, REGIME)) is not None]
    known = [(run, gaps) for run, gaps in known if np.isfinite(gaps[1]).any()]
    if not known:
        return None
    first, (cosine, _) = known[0]
    task = _central(first, "dtd", cosine)
    name = first.results.tasks[task]
    same = [(run, gaps) for run, gaps in known if run.results.tasks == first.results.tasks]
    partners = [place for place in range(len(first.results.tasks)) if place != task]
    thick = 0.8 / len(same)
    with style.settings():
        figure = Figure(figsize=(7.2, 4.0))
        axes = figure.subplots()
        for place, (run, (_, gap)) in enumerate(same):
            curvature = run.data("smoothness", REGIME)
            assert curvature is not None
            shift = (place - (len(same) - 1) / 2) * thick
            axes.bar(
                np.arange(len(partners)) + shift,
                gap[task, partners],
                0.92 * thick,
                color=style.KIND_COLOURS[place % len(style.KIND_COLOURS)],
                label=f"{style.run_title(run, runs)}: λ_max {float(curvature['lambda_max'][task]):.3g}",
            )
        axes.set_xticks(
            range(len(partners)), [first.results.tasks[place] for place in partners], rotation=30, ha="right"
        )
        axes.set(ylabel=f"loss gap of {name} at θ0 + ½ (τ₁ + τ₂)")
        axes.legend(loc="best", fontsize=8)
        style.grid(axes)
    return figure


def norms(runs: Sequence[Run]) -> Figure | None:
    """Figure 5: ‖τ‖ of each task, and ‖θ0‖ as a line, of every run."""
    with style.settings():
        figure = Figure(figsize=(7.2, 3.8))
        axes = figure.subplots()
        for place, run in enumerate(runs):
            data = run.data("similarity", REGIME)
            assert data is not None
            tint = style.KIND_COLOURS[place % len(style.KIND_COLOURS)]
            norm, ratio = data["norm"].to_numpy(), data["norm_ratio"].to_numpy()
            title = style.run_title(run, runs)
            axes.plot(run.results.tasks, norm, MARKERS[place % 5], color=tint, label=f"{title}: ‖τ‖")
            level = float(norm[0] / ratio[0])
            axes.axhline(level, color=tint, linestyle="--", linewidth=1, label=f"{title}: ‖θ0‖ = {level:.1f}")
        axes.set_yscale("log")
        axes.set(ylabel="norm")
        axes.tick_params(axis="x", rotation=30)
        axes.legend(loc="best", fontsize=8)
        style.grid(axes)
    return figure


def clusters(run: Run) -> Figure | None:
    """Figure 7: cosines with tasks in the order of their clusters, boxes around those of more than one.

    At the paper's two numbers of clusters where the run has both of them; else at the one with the largest
    gap, and at the next largest gap beyond it.
    """
    data = run.data("bases", REGIME)
    if data is None or len(run.results.tasks) < 3:
        return None
    held = np.flatnonzero(partitions.merged(data))
    first = partitions.chosen(data)
    gap = np.diff(data["eigenvalues"].to_numpy().astype(float))
    every = [k for k in data["clusters"].to_numpy().astype(int) if k < len(held)]
    further = [k for k in every if k > first]
    shown = [first, *sorted(further, key=lambda k: -gap[k - 1])[:1]]
    if set(PAPERS_CLUSTERS) <= set(every):
        shown = list(PAPERS_CLUSTERS)
    known = [(k, labels) for k in shown if (labels := partitions.spectral(data, k)) is not None]
    if not known:
        return None
    cosine = np.abs(data["cosine"].to_numpy().astype(float))
    np.fill_diagonal(cosine, np.nan)
    top = max(0.05, float(np.nanmax(cosine)))
    with style.settings():
        figure, plots = matrices.matrices(len(known))
        for axes, (k, labels) in zip(plots, known, strict=True):
            order = held[np.argsort(labels[held], kind="stable")]
            image = axes.imshow(
                cosine[np.ix_(order, order)], cmap=style.ERROR_MAP, vmin=0, vmax=top, interpolation="none"
            )
            matrices.boxes(axes, labels[order])
            matrices.label(axes, [run.results.tasks[place] for place in order])
            if len(order) > NUMBERED:
                axes.tick_params(labelsize=4)
            axes.set_title(f"|cosine|, {k} clusters" + (", by the largest gap" if k == first else ""))
        bar = figure.colorbar(image, ax=plots, shrink=0.8, pad=0.015)
        bar.outline.set_visible(False)
    return figure


def early(run: Run) -> Figure | None:
    """Figure 9: |cosine| on the way of training, tasks in the order of the clusters at the end."""
    data = run.data("early_similarity", REGIME)
    if data is None or len(run.results.tasks) < 2:
        return None
    cosine, labels = np.abs(data["cosine"].to_numpy().astype(float)), data["labels"].to_numpy().astype(int)
    marks, shares = str(data.attrs["marks"]).split(", "), data["rand_index"].to_numpy()
    order = np.argsort(labels[-1], kind="stable")
    for matrix in cosine:
        np.fill_diagonal(matrix, np.nan)
    with style.settings():
        figure, plots = matrices.matrices(len(marks))
        for axes, mark, matrix, label, index in zip(plots, marks, cosine, labels, shares, strict=True):
            top = max(0.05, float(np.nanmax(matrix)))
            axes.imshow(
                matrix[np.ix_(order, order)], cmap=style.ERROR_MAP, vmin=0, vmax=top, interpolation="none"
            )
            matrices.boxes(axes, label[order])
            matrices.label(axes, [run.results.tasks[place] for place in order])
            if len(order) > NUMBERED:
                axes.tick_params(labelsize=4)
            axes.set_title(f"{mark}: up to {top:.2f}, Rand index {index:.2f}")
    return figure


def accuracy_by_clusters(run: Run) -> Figure | None:
    """Figure 8: mean accuracy of every k, spectral partitions and random ones, θ0, the majority vote."""
    data = run.data("bases", REGIME)
    if data is None:
        return None
    k = data["clusters"].to_numpy().astype(int)
    absolute = data["absolute"].to_numpy().astype(float)
    inside, outside = partitions.merges(data)
    with style.settings():
        figure = Figure(figsize=(6.4, 4.2))
        axes = figure.subplots()
        for column in range(1, absolute.shape[1]):
            axes.plot(
                k,
                absolute[:, column],
                "o",
                color=style.UNKNOWN,
                markersize=3,
                alpha=0.5,
                label="random, clusters of the same sizes" if column == 1 else None,
            )
        random = absolute[:, 1:]
        held = np.isfinite(random).any(axis=1) if random.shape[1] else np.zeros(len(k), dtype=bool)
        if held.any():
            axes.plot(k[held], np.nanmean(random[held], axis=1), color=style.UNKNOWN, label="their mean")
        tint = style.colour(REGIME, run.regimes)
        axes.plot(k, absolute[:, 0], "-o", color=tint, label=f"spectral: {inside}, then {outside}")
        axes.axvline(partitions.chosen(data), color=style.FAINT, linewidth=1, label="the largest gap's k")
        held = partitions.merged(data)
        start, majority = run.data("single_task", run.results.start), run.results.majority()
        if start is not None:
            level, tint = float(start["accuracy"].to_numpy()[held].mean()), style.REGIME_COLOURS["pretrained"]
            axes.axhline(level, color=tint, linestyle="--", label="θ0", linewidth=1)
        if majority is not None:
            level = float(majority[held].mean())
            axes.axhline(level, color=style.FAINT, linestyle=":", label="majority vote", linewidth=1.5)
        axes.set(xlabel="number of bases k", ylabel="accuracy, mean over tasks")
        axes.set_xticks(k if len(k) <= NUMBERED else k[:: len(k) // NUMBERED])
        axes.legend(loc="best", fontsize=8)
        style.grid(axes)
    return figure


def nearest(run: Run) -> Figure | None:
    """Figure 10: cosine of a held-out task with the nearest basis of others, of Mean or of each method."""
    if several := partitions.nearest_by_method(run, REGIME):
        return _nearest_by_method(several)
    rows = partitions.nearest(run, REGIME)
    if not rows:
        return None
    places = np.arange(len(rows))
    mean = np.array([row.basis.mean() for row in rows])
    low, high = (np.array([pick(row.basis) for row in rows]) for pick in (np.min, np.max))
    with style.settings():
        figure = Figure(figsize=(7.2, 3.8))
        axes = figure.subplots()
        tint = style.colour(REGIME, run.regimes)
        axes.bar(places, mean, 0.6, color=tint, label="nearest basis, mean over partitions")
        axes.vlines(places, low, high, color=style.INK, linewidth=1, label="least to largest")
        axes.plot(
            places, [row.single for row in rows], "D", color=style.KIND_COLOURS[0], label="nearest vector"
        )
        axes.set_xticks(places, [f"{row.task}\n({row.nearest})" for row in rows], fontsize=7)
        axes.set(ylabel="cosine")
        axes.legend(loc="best", fontsize=8)
        style.grid(axes)
    return figure


def _nearest_by_method(cosines: dict[str, dict[str, Floats]]) -> Figure:
    names = list(dict.fromkeys(task for tasks in cosines.values() for task in tasks))
    thick = 0.8 / len(cosines)
    with style.settings():
        figure = Figure(figsize=(7.2, 3.8))
        axes = figure.subplots()
        for place, (method, by_task) in enumerate(cosines.items()):
            x = np.arange(len(names)) + (place - (len(cosines) - 1) / 2) * thick
            every = [by_task.get(name, np.array([np.nan])) for name in names]
            tint = style.KIND_COLOURS[place % len(style.KIND_COLOURS)]
            axes.bar(x, [values.mean() for values in every], 0.92 * thick, color=tint, label=method)
            axes.vlines(
                x,
                [values.min() for values in every],
                [values.max() for values in every],
                color=style.INK,
                linewidth=1,
            )
        axes.set_xticks(range(len(names)), names)
        axes.set(ylabel="cosine with the nearest basis")
        axes.set_title("mean over partitions, least to largest", fontsize=8)
        axes.legend(loc="best", fontsize=8)
        style.grid(axes)
    return figure
