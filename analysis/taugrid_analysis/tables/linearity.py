# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity by layer, means over pairs."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.frames.layers import near_half, near_papers
from taugrid_analysis.records import Array
from taugrid_analysis.run import Run
from taugrid_analysis.text_table import Column, Table, Value

DISTANCES = (
    Column("1 − cosine", 2, scientific=True),
    Column("1 − baseline", 2, scientific=True),
    Column("of it", 4),
)


def _distances(cosine: float, baseline: float) -> list[Value]:
    """Of DISTANCES: both from 1, and the first as a part of the second."""
    far, base = 1 - cosine, 1 - baseline
    return [far, base, far / base if base > 0 else float("nan")]


def linearity(run: Run) -> Table:
    """At the α nearest to ½."""
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
    told = run.results.attributes(group)
    if layer in (0, told.get("last_layer")):
        return "output" if layer else "embedding"
    begin = told.get("first_decoder_layer")
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
        told: list[Value] = [row["regime"], row["data"], int(row["models"]), name]
        told += _distances(row["cosine"], row["baseline"])
        table.rows.append([*told, *(float(row[one]) for one in ("coefficient", "centred_cosine", "error"))])
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


PRINTED = {"½α(1−α) λ_max ‖v‖²": "0.903", "λ_max": "0.782", "‖v‖²": "0.839"}  # one task, ResNet-20, CIFAR-10


def barrier(run: Run) -> Table:
    """R² of the loss barrier on what may cause it, with the range over leaving out any one task."""
    table = Table(
        "barrier",
        "Loss barrier of pairs, R² on its causes (cross-task linearity paper, theorem 5.1 and appendix C.2)",
        [
            Column("regime"),
            Column("barrier"),
            Column("regressed on"),
            Column("published"),
            Column("ours", 3),
            Column("least", 3),
            Column("most", 3),
            Column("slope", 3, significant=True),
        ],
    )
    for regime in run.results.names("barrier"):
        data = run.data("barrier", regime)
        assert data is not None
        half = int(np.argmin(np.abs(data["alpha"].to_numpy() - 0.5)))
        delta, weight = data["delta"].to_numpy()[:, half], float(data["alpha"][half])
        factor = weight * (1 - weight) / 2
        curved = {
            "½α(1−α) vᵀHv, H at θ0": factor * data["curvature"].to_numpy(),
            "½α(1−α) vᵀHv, H in the middle": factor * data["middle_curvature"].to_numpy(),
        }
        for name, values in curved.items():
            table.rows.append([regime, "signed", name, None, *_explained(values, delta, run.results.pairs)])
        distance, top = data["distance"].to_numpy(), run.data("smoothness", regime)
        causes = {"‖v‖²": distance**2}
        if top is not None:
            largest = top["lambda_max"].to_numpy()[run.results.pairs].mean(axis=1)
            causes |= {"λ_max": largest, "½α(1−α) λ_max ‖v‖²": factor * largest * distance**2}
        for name, values in causes.items():
            told = _explained(values, np.abs(delta), run.results.pairs)
            table.rows.append([regime, "absolute", name, PRINTED[name], *told])
    if table.rows:
        table.notes.append(
            "δ = αL(θ₁) + (1−α)L(θ₂) − L(αθ₁ + (1−α)θ₂), L: mean of the tasks' training losses; v = θ₁ − θ₂."
            " λ_max: mean of the two tasks' at their θ*. Least and most: leaving out any one task. Published"
            " values are of one task's models from several θ0, ours of pairs of tasks from one θ0."
        )
    else:
        table.rows = [
            [None, "absolute", name, printed, None, None, None, None] for name, printed in PRINTED.items()
        ]
        table.notes.append("This run did not measure /barrier. All else in the paper is figures.")
    return table


def _explained(x: Array, y: Array, pairs: Array) -> list[Value]:
    """R² over pairs, its range when any one task is left out, and the slope."""

    def of(kept: Array) -> float:
        if kept.sum() < 3 or x[kept].std() == 0 or y[kept].std() == 0:
            return float("nan")
        return float(np.corrcoef(x[kept], y[kept])[0, 1] ** 2)

    every = np.ones(len(x), dtype=bool)
    without = [of(~(pairs == task).any(axis=1)) for task in np.unique(pairs)]
    known = [value for value in without if np.isfinite(value)]
    slope = float(np.polyfit(x, y, 1)[0]) if len(x) > 2 and x.std() > 0 else float("nan")
    ends = [min(known), max(known)] if known else [float("nan")] * 2
    return [of(every), *ends, slope]


def averages(run: Run) -> Table:
    """Weights against ensembles, by the number of models."""
    kinds = ("weights", "logits", "features")
    table = Table(
        "averages",
        "Averages of models: mean accuracy over sets and their tasks",
        [
            Column("regime"),
            Column("models"),
            Column("sets"),
            *(Column(kind, 4) for kind in kinds),
            Column("weights − logits", 4),
            Column("correlation with logits", 3),
            Column("gap of theorem 4.3", 4),
        ],
    )
    for regime in run.results.names("averages"):
        data = run.data("averages", regime)
        assert data is not None
        size = data["sets"].to_numpy().sum(axis=1)
        for count in np.unique(size):
            rows = {kind: np.nanmean(data[kind].to_numpy()[size == count], axis=1) for kind in kinds}
            both = rows["weights"], rows["logits"]
            varies = len(both[0]) > 2 and all(values.std() > 0 for values in both)
            related = float(np.corrcoef(*both)[0, 1]) if varies else float("nan")
            means: list[Value] = [float(values.mean()) for values in rows.values()]
            difference = float((both[0] - both[1]).mean())
            apart = float(np.nanmean(data["gap"].to_numpy()[size == count])) if "gap" in data else None
            table.rows.append([regime, int(count), len(both[0]), *means, difference, related, apart])
    if table.rows:
        table.notes.append(
            "Weights: f of the mean θ; logits, features: means of the models' logits, of their outputs."
            " Correlation (Pearson) of the two accuracies over sets."
        )
        table.notes.append(
            "Gap of theorem 4.3, by which task vectors come apart: ‖u − v‖/‖v − f(θ0)‖ of outputs, mean over"
            " points, u of θ0 + Σ τ/(k + 1), v the mean of f(θ0) and of the k models' outputs. 0: the sum is"
            " what each vector does alone."
        )
    return table


def stitching(run: Run) -> Table:
    """Means over pairs and over tasks, at the λ nearest to the paper's 0.4."""
    table = Table(
        "stitching",
        "Stitched models: mean accuracy with features mixed at a block and θ0 above",
        [
            Column("regime"),
            Column("λ", 2),
            Column("block"),
            *(Column(name, 4) for name in ("pair, averaged", "own edit alone", "other edit alone")),
            *(Column(name, 4) for name in ("2f(θ0) − f(θ0 + λτ)", "f(θ0 − λτ)")),
        ],
    )
    for regime in run.results.names("stitching"):
        data = run.data("stitching", regime)
        assert data is not None
        row = int(np.argmin(np.abs(data["lambda"].to_numpy() - 0.4)))
        single = data["single"].to_numpy()[:, :, row]
        own = single[np.eye(len(single), dtype=bool)].mean(axis=0)
        others = np.nanmean(single[~np.eye(len(single), dtype=bool)], axis=0) if len(single) > 1 else None
        for place, block in enumerate(data["block"].to_numpy()):
            pair = float(data["both"].to_numpy()[:, :, row, place].mean()) if "both" in data else float("nan")
            other = float(others[place]) if others is not None else float("nan")
            ends = [float(data[name].to_numpy()[:, row, place].mean()) for name in ("negated", "edited")]
            table.rows.append(
                [regime, float(data["lambda"][row]), int(block), pair, float(own[place]), other, *ends]
            )
    return table
