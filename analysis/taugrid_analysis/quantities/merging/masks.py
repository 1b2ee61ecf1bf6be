# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Localize-and-Stitch, mask sharing and stitching twice, from their formulas."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import grad_and_value

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.bases import clustering
from taugrid_analysis.quantities.merging.oracle_models import Model, fine_tuned_models
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact, places, relative, stored
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat

Settings = dict[str, Any]
METHODS = ("localize_stitch", "mask_sharing", "stitch_twice")
PART = 128  # points whose gradients are taken together


def rows(oracle: Oracle, settings: Settings, t: int) -> list[int]:
    """The first of each class in a permutation by seed, then the second of each, and so on."""
    split = settings["inputs"]
    labels = oracle.files[t][f"{split}/labels"][()]
    seed = draws.seed_for(oracle.inputs.seed(), f"localize/{split}/{oracle.tasks[t]}")
    order = np.array(draws.permutation(len(labels), seed))
    turn = {int(row): int((labels[order[:i]] == labels[row]).sum()) for i, row in enumerate(order)}
    candidates = sorted((int(row) for row in order), key=turn.__getitem__)  # stable
    return [row for row in candidates if turn[row] < settings["points_per_class"]][: settings["points"]]


def _inside(oracle: Oracle, regime: str, settings: Settings) -> list[str]:
    """The tensors that masks are of."""
    wanted = [
        name
        for name in oracle.theta0
        if not settings["tensors"] or any(part in name for part in settings["tensors"])
    ]
    tasks = range(len(oracle.tasks))
    return [name for name in wanted if any(oracle.tau(regime, t)[name].any() for t in tasks)]


@cache
def learnt(oracle: Oracle, masks_of: str, regime: str, t: int) -> tuple[Parameters, list[float]]:
    """As mask(), of task t's own model."""
    return mask(fine_tuned_models(oracle, regime)[t], oracle.inputs.config["merging"][masks_of])


def mask(model: Model, settings: Settings) -> tuple[Parameters, list[float]]:
    """γ of a model, 0 or 1, and the cross-entropy before each step, a mean over its tasks."""
    oracle = model.oracle
    names = _inside(oracle, model.regime, settings)
    tau = {name: v for name, v in model.tau.items() if name in names}
    magnitude = flat(tau).abs()
    k = int(settings["start_density"] * len(magnitude))
    cut = float(magnitude.topk(k).values[-1]) if k else float("inf")
    scores = {
        name: torch.where(v.abs() > cut, settings["bias"], -settings["bias"]).double()
        for name, v in tau.items()
    }
    points = {t: oracle.sample(settings["inputs"], t, rows(oracle, settings, t)) for t in model.tasks}
    statistics = model.statistics()

    def loss(step: Parameters, xs: Tensor, ys: Tensor, t: int) -> Tensor:
        whole = {name: step.get(name, torch.zeros_like(v)) for name, v in oracle.theta0.items()}
        if model.linear:
            f, jv = oracle.tangent(whole, xs, t)
            z = f + jv
        else:
            z = oracle.read(statistics | {name: v + whole[name] for name, v in oracle.theta0.items()}, xs, t)
        return oracle.loss(t, oracle.logits(t, z), ys, points[t][1]) / len(points)

    seen = []
    for _ in range(settings["steps"]):
        soft = {name: s.sigmoid() for name, s in scores.items()}
        step = {name: soft[name] * tau[name] for name in names}
        gradient, value = {name: torch.zeros_like(v) for name, v in step.items()}, 0.0
        for t, (x, y) in points.items():
            for xs, ys in zip(x.split(PART), y.split(PART), strict=True):
                slopes, part = grad_and_value(loss)(step, xs, ys, t)
                value += float(part)
                gradient = {name: v + slopes[name].detach() for name, v in gradient.items()}
        seen.append(value)
        for name, s in scores.items():
            sign = (
                torch.where(s > 0, 1.0, -1.0) if settings["regulariser"] == "signed" else torch.tensor(-1.0)
            )
            move = settings["learning_rate"] * tau[name] * gradient[name] - settings["l1"] * sign
            scores[name] = s - soft[name] * (1 - soft[name]) * move
    return {name: (s > 0).double() for name, s in scores.items()}, seen


def _regrouped(masks: Tensor, labels: list[int], sharing: bool, half_up: bool) -> Tensor:
    """[T,d] as paper 2 rounds them: shared by a cluster, or divided in it."""
    grouped = masks.clone()
    for c in set(labels):
        members = [t for t, label in enumerate(labels) if label == c]
        shares = masks[members].mean(0) if sharing else masks[members] / masks[members].sum(0).clamp(min=1)
        rounded = torch.floor(shares + 0.5) if half_up else torch.round(shares)  # round(½) is 0 there
        grouped[members] = rounded
    return grouped


def to_stitch(
    every: list[Parameters], method: str, labels: list[int], settings: Settings
) -> dict[str, Tensor]:
    """The masks that the method stitches of these, [T,…] by tensor; `labels`: each one's cluster."""
    stacked = {key: torch.stack([gamma[key] for gamma in every]) for key in every[0]}
    if method == "localize_stitch":
        return stacked
    half_up = settings["rounding"] == "half_up"
    return {key: _regrouped(v, labels, method == "mask_sharing", half_up) for key, v in stacked.items()}


def of_method(oracle: Oracle, name: str, method: str, regime: str, settings: Settings) -> dict[str, Tensor]:
    """The masks that are stitched, [T,…] by tensor."""
    masks_of = name if method == "localize_stitch" else "localize_stitch"
    every = [learnt(oracle, masks_of, regime, t)[0] for t in range(len(oracle.tasks))]
    labels = [0] * len(every)
    if method != "localize_stitch":
        labels = [int(label) for label in oracle.results[f"merging/{name}/{regime}/labels"][()]]
    return to_stitch(every, method, labels, settings)


def cosines(masks: list[Parameters], models: list[Model]) -> Array:
    """Cosines [T,T] of what masks keep of their vectors, γ_s τ_s and γ_t τ_t, by which tasks cluster."""
    kept = torch.stack(
        [
            torch.cat([(mask[key] * model.tau[key]).flatten() for key in mask])
            for mask, model in zip(masks, models, strict=True)
        ]
    ).numpy()
    norm = np.maximum(np.linalg.norm(kept, axis=1), 1e-300)
    return np.asarray(kept @ kept.T / np.outer(norm, norm))


def stitch(masks: dict[str, Tensor], models: list[Model]) -> Parameters:
    """Σ γ τ / Σ γ by masks [T,…] of these models, by tensor; 0 where none has it."""
    tau = {key: torch.zeros_like(v) for key, v in models[0].tau.items()}
    for key, every in masks.items():
        above = (every * torch.stack([model.tau[key] for model in models])).sum(0)
        tau[key] = above / every.sum(0).clamp(min=1)
    return tau


def checks(oracle: Oracle, name: str, method: str, settings: Settings) -> Iterator[Check]:
    group = f"merging/{name}"
    masks_of = name if method == "localize_stitch" else "localize_stitch"
    mask_settings = oracle.inputs.config["merging"][masks_of]

    def loss(place: Place) -> Reading:
        regime, t, step = place
        again = learnt(oracle, masks_of, regime, t)[1][step]
        return relative(stored(oracle, group, "mask_loss", place), again, 2e-3, 1e-4)

    def density(place: Place) -> Reading:
        regime, t = place
        masks = of_method(oracle, name, method, regime, settings)
        kept = torch.cat([mask[t].flatten() for mask in masks.values()])
        return relative(stored(oracle, group, "mask_density", place), float(kept.mean()), 0, 2e-3)

    @cache
    def chosen_rows(t: int) -> list[int]:
        return rows(oracle, mask_settings, t)

    def row(place: Place) -> Reading:
        _, t, i = place
        chosen = chosen_rows(t)
        return exact(stored(oracle, group, "data_sample_index", place), chosen[i] if i < len(chosen) else -1)

    def partition(place: Place) -> Reading:
        regime = place[0]
        every = [learnt(oracle, masks_of, regime, t)[0] for t in range(len(oracle.tasks))]
        labels = oracle.results[f"{group}/{regime}/labels"][()].astype(int)
        return clustering.as_good_as_any(
            cosines(every, fine_tuned_models(oracle, regime)), labels, int(settings["clusters"])
        )

    if method != "localize_stitch" and settings["clusters"] > 0 and len(oracle.tasks) <= clustering.COUNTED:
        every = [place for place in places(oracle, group, "labels") if place[1] == 0]
        yield Check(group, "labels", every, partition)
    yield Check(group, "mask_loss", places(oracle, group, "mask_loss"), loss)
    yield Check(group, "mask_density", places(oracle, group, "mask_density"), density)
    yield Check(group, "data_sample_index", places(oracle, group, "data_sample_index"), row)
