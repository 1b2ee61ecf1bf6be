# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity by layer: pairs, averages, sums and negations; and whether it is transitive."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.run.frames.layers import near_half, near_papers
from taugrid_analysis.run.opened import Run

DISTANCES = (
    Column("1 − cosine", 2, scientific=True),
    Column("1 − baseline", 2, scientific=True),
    Column("of it", 4),
)


def _distances(cosine: float, baseline: float) -> list[Value]:
    """The cells of DISTANCES: both from 1, and the first as a part of the second."""
    far, base = 1 - cosine, 1 - baseline
    return [far, base, far / base if base > 0 else float("nan")]


def linearity(run: Run) -> Table:
    """Shows the pairs at the α nearest to ½."""
    frame = run.layers
    table = Table(
        "linearity",
        "Cross-task linearity by layer",
        [
            Column("regime"),
            Column("layer"),
            *DISTANCES,
            Column("coefficient", 4),
            Column("centred cosine", 4),
            Column("centred baseline", 4),
            Column("error", 4),
            Column("largest error", 4),
        ],
    )
    if frame.empty:
        return table
    frame = near_half(frame)
    for (regime, layer), rows in frame.groupby(["regime", "layer"], sort=False):
        name = _name(run, f"linearity/{regime}", layer)
        distances = _distances(rows["cosine"].mean(), rows["baseline"].mean())
        columns = ("coefficient", "centred_cosine", "centred_baseline", "error")
        means = [float(rows[column].mean()) for column in columns]
        table.rows.append([regime, name, *distances, *means, float(rows["error"].max())])
    table.notes += [
        f"u = f(αθ₁ + (1−α)θ₂) against v = αf(θ₁) + (1−α)f(θ₂) at α = {frame['alpha'].iloc[0]:g}: means over"
        f" the points of both tasks, then over {len(run.results.pairs)} pairs. Coefficient ⟨u,v⟩/‖v‖².",
        "Baseline: the cosine of f(θ₁) and f(θ₂), near 1 wherever fine-tuning changed little. Centred:"
        " differences from θ0's features. Error: ‖u − v‖/‖f(θ₁) − f(θ₂)‖.",
    ]
    return table


def _name(run: Run, group: str, layer: int) -> str:
    """Embedding, output, or a number; a decoder's layers are counted anew."""
    attributes = run.results.attributes(group)
    if layer in (0, attributes.get("last_layer")):
        return "output" if layer else "embedding"
    begin = attributes.get("first_decoder_layer")
    return str(layer) if begin is None or layer < begin else f"decoder {layer - begin + 1}"


def of_averages(run: Run) -> Table:
    """Averages of several models by layer (equation 1 of the paper)."""
    table = Table(
        "layer_averages",
        "Averages of models by layer: averaged weights against averaged features",
        [
            Column("regime"),
            Column("data"),
            Column("models"),
            Column("layer"),
            *DISTANCES,
            Column("coefficient", 4),
            Column("centred cosine", 4),
            Column("error", 4),
        ],
    )
    frame = run.layer_averages
    for _, row in () if frame.empty else frame.iterrows():
        name = _name(run, f"layer_averages/{row['regime']}", row["layer"])
        cells: list[Value] = [row["regime"], row["data"], int(row["models"]), name]
        cells += _distances(row["cosine"], row["baseline"])
        table.rows.append(
            [*cells, *(float(row[column]) for column in ("coefficient", "centred_cosine", "error"))]
        )
    if table.rows:
        table.notes.append(
            "u = f(1/k Σ θᵢ) against v = 1/k Σ f(θᵢ), means over the points of the data. Baseline: mean over"
            " the models of the cosine of u and f(θᵢ); centred: differences from θ0's features; error:"
            " ‖u − v‖ as a part of the root mean square distance of two of the models."
        )
    return table


def edits(run: Run) -> Table:
    """Sums and negations of task vectors by layer, at the λ nearest to the paper's 0.4."""
    table = Table(
        "layer_edits",
        "Task arithmetic by layer: edited weights against mixed features",
        [
            Column("regime"),
            Column("edit"),
            Column("λ", 2),
            Column("layer"),
            *DISTANCES,
            Column("coefficient", 4),
            Column("error", 4),
        ],
    )
    for edit, group, frame in (
        ("sum", "layer_addition", run.layer_additions),
        ("negation", "layer_negation", run.layer_negations),
    ):
        if frame.empty:
            continue
        frame = near_papers(frame)
        for (regime, layer), rows in frame.groupby(["regime", "layer"], sort=False):
            name = _name(run, f"{group}/{regime}", layer)
            distances = _distances(rows["cosine"].mean(), rows["baseline"].mean())
            means = [float(rows[column].mean()) for column in ("coefficient", "error")]
            table.rows.append([regime, edit, float(rows["lambda"].iloc[0]), name, *distances, *means])
    if table.rows:
        table.notes.append(
            "Sum: u = f(θ0 + λ(τ₁ + τ₂)), v = ½f(θ0 + 2λτ₁) + ½f(θ0 + 2λτ₂), points of both tasks; negation:"
            " u = f(θ0), v = ½f(θ0 + λτ) + ½f(θ0 − λτ), its own task's points. Means over points, then over"
            " pairs or tasks. Baseline: cosine of the two that v is the mean of; error: ‖u − v‖ as a part of"
            " their distance."
        )
    return table


PERMUTATIONS, SEED = 9999, 0


def triples(pairs: Array) -> Array:
    """[K,3]: the places of the three pairs of every triple of which all are measured."""
    place = {frozenset(pair): index for index, pair in enumerate(pairs.tolist())}
    rows = []
    for three in combinations(sorted(set(pairs.ravel().tolist())), 3):
        sides = [frozenset(pair) for pair in combinations(three, 2)]
        if all(side in place for side in sides):
            rows.append([place[side] for side in sides])
    return np.array(rows, dtype=int).reshape(-1, 3)


def excess(errors: Floats, chosen: Array) -> Floats:
    """[K]: the largest error of a triple over the next; 1 where the third satisfies what two do."""
    ranked = np.sort(errors[chosen], axis=-1)
    return np.asarray(ranked[:, 2] / ranked[:, 1])


def beyond_tasks(errors: Floats, pairs: Array) -> Floats | None:
    """log e_ij − r_i − r_j, the r by least squares; None where these explain every error of so few pairs.

    A task whose errors are all large makes the two largest of each of its triples alike, without any
    transitivity: that is taken away.
    """
    tasks, sides = np.unique(pairs, return_inverse=True)
    effects = np.eye(len(tasks))[sides.reshape(-1, 2)].sum(axis=1)  # [P,T]: which two r each error has
    logarithms = np.log(errors)
    effect, _, rank, _ = np.linalg.lstsq(effects, logarithms)
    return np.asarray(logarithms - effects @ effect) if rank < len(errors) else None


def alike(residuals: Floats, chosen: Array) -> Floats:
    """[…]: the share of triples whose two largest residuals lie nearer to each other than its two smallest.

    It compares distances within a triple alone, so that its permutations hold for errors that scatter in
    whatever way; a mean of ratios would need their logarithms to be normal.
    """
    ranked = np.sort(residuals[..., chosen], axis=-1)
    return np.asarray((ranked[..., 2] - ranked[..., 1] < ranked[..., 1] - ranked[..., 0]).mean(axis=-1))


def chance(residuals: Floats, chosen: Array, permutations: int = PERMUTATIONS) -> tuple[float, float]:
    """Over permutations of the residuals: the mean of alike(), and the share of them that reach it."""
    shuffled = np.random.default_rng(SEED).permuted(np.tile(residuals, (permutations, 1)), axis=1)
    drawn, share = alike(shuffled, chosen), float(alike(residuals, chosen))
    return float(drawn.mean()), float(np.append(drawn >= share, True).mean())


def transitivity(run: Run) -> Table:
    """Looks at the last layer and the α nearest ½."""
    table = Table(
        "transitivity",
        "Transitivity of cross-task linearity: the largest error of a triple of tasks over the next",
        [
            Column("regime"),
            Column("triples"),
            Column("mean", 3),
            Column("most", 3),
            Column("alike", 1, percent=True),
            Column("alike by chance", 1, percent=True),
            Column("p", 4, least=True),
        ],
    )
    for regime in run.results.names("linearity"):
        pairs = run.results.pairs
        chosen = triples(pairs)
        if not len(chosen) or run.results.regime(regime).linear:
            continue
        errors = run.pairs.loc[regime]["linearity"].to_numpy(dtype=float)
        if not np.isfinite(errors).all() or not (errors > 0).all():
            continue
        ratios, residuals = excess(errors, chosen), beyond_tasks(errors, pairs)
        numbers: list[Value] = [float(ratios.mean()), float(ratios.max()), None, None, None]
        if residuals is not None:
            numbers[2:] = [float(alike(residuals, chosen)), *chance(residuals, chosen)]
        table.rows.append([regime, len(chosen), *numbers])
    if table.rows:
        table.notes.append(
            "Where two pairs of a triple hold to some error, transitivity says that the third does: the two"
            " largest errors are alike. Error: ‖u − v‖/‖f(θ₁) − f(θ₂)‖ of the last layer. alike: triples"
            " whose two largest errors lie nearer to each other than its two smallest, as residuals log e −"
            " r₁ − r₂ after what each task does to all of its errors. By chance, p: over"
            f" {PERMUTATIONS:,} permutations of these residuals, as large a share."
        )
    return table


TABLES = {
    "linearity": linearity,
    "layer_averages": of_averages,
    "layer_edits": edits,
    "transitivity": transitivity,
}
