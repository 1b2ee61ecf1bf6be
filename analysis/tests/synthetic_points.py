# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Points of a synthetic results.h5: their rows and, in schema 2, which of them each model has right."""

from __future__ import annotations

import h5py
import numpy as np

CONTROL_POINTS = 300
DRAWS = 4
NULL_SHARE, NULL_SPREAD = 0.7, 0.01  # of the NTK, and the steps from draw to draw
RANK = 15
EVALUATED = {  # group: variables; whether the points are the control's
    "single_task": {
        "accuracy": False,
        "validation_accuracy": False,
        "control_accuracy": True,
        "control_validation_accuracy": True,
    },
    "multitask": {"accuracy": False, "validation_accuracy": False},
    "addition": {"test_accuracy": False, "validation_accuracy": False},
    "pair_addition": {"test_accuracy": False, "validation_accuracy": False},
    "negation": {
        "test_target": False,
        "validation_target": False,
        "test_control": True,
        "validation_control": True,
    },
}


def write_rows(file: h5py.File) -> None:
    """Every edited model meets the points that the single tasks do."""
    some = next((group for group in file.get("single_task", {}).values()), None)
    if some is None:
        return
    rows = some["sample_index"][()]
    for name in ("single_task", "addition", "pair_addition", "negation", "tau_jp", "multitask"):
        for group in file.get(name, {}).values():
            for key in ("sample_index", "validation_sample_index"):
                if key in group:
                    del group[key]
                group[key] = rows
            if name == "negation":
                for key in ("control_sample_index", "validation_control_sample_index"):
                    group[key] = np.arange(CONTROL_POINTS)


def write_schema_2(file: h5py.File) -> None:
    """What schema 2 adds to schema 1; accuracies become counts of points."""
    for name, variables in EVALUATED.items():
        for regime, group in file.get(name, {}).items():
            for variable, control in variables.items():
                if variable in group:
                    _bits(file, f"{name}/{regime}/{variable}", control)
    for regime, group in file.get("addition", {}).items():
        _again(group, file[f"single_task/{regime}/accuracy"][()])
    for group in file.get("disentanglement", {}).values():
        group.attrs["split"] = "test"
    for group in file.get("representation", {}).values():
        for name in ("error", "error_by_task"):
            group[f"symmetric_{name}"] = 1.5 * group[name][()]
    for group in file.get("tau_jp", {}).values():
        group["validation_value"] = 1.1 * group["value"][()]
    for regime, group in file.get("training", {}).items():
        if regime.startswith("tau_jp"):
            group.attrs["penalty_form"], group.attrs["penalty_others"] = "norm", "mean"
    for group in file.get("ntk", {}).values():
        _null(group)


def _bits(file: h5py.File, path: str, control: bool) -> None:
    """A model has the easiest points right, with some noise: models agree on most of them."""
    accuracy = file[path][()]
    points = CONTROL_POINTS if control else file[path].parent["sample_index"].shape[1]
    right = np.rint(np.clip(accuracy, 0, 1) * points).astype(int)
    rng = np.random.default_rng(len(path))
    ease = np.arange(points) + 0.1 * points * rng.normal(size=(*accuracy.shape, points))
    order = ease.argsort(axis=-1).argsort(axis=-1)
    bits = order < right[..., None]
    file[path][...] = right / points
    name = f"correct/{path}"
    file[name] = np.packbits(bits, axis=-1)
    file[name].attrs["points"] = np.full(accuracy.shape, points)


def _again(group: h5py.Group, single: np.ndarray) -> None:
    """The numbers that follow from the curve."""
    alpha, test = group["alpha"][()], group["test_accuracy"][()]
    chosen = int(np.flatnonzero(alpha == group["chosen_alpha"][()])[0])
    at_one = int(np.flatnonzero(alpha == 1.0)[0])
    for place, prefix in ((chosen, ""), (at_one, "one_shot_")):
        group[f"{prefix}absolute"][...] = test[place].mean()
        group[f"{prefix}normalized"][...] = (test[place] / single).mean()


def _null(group: h5py.Group) -> None:
    """Draw d of every task has share NULL_SHARE + d·NULL_SPREAD, for every logit that the task has."""
    energy = group["local_energy"][()]
    tasks, _, logits, both = energy.shape
    known = np.isfinite(energy).all(axis=3).any(axis=1)  # [T,C]
    share = NULL_SHARE + NULL_SPREAD * np.arange(DRAWS)
    group["null_share"] = np.where(known[:, :, None], share, np.nan)
    halves = np.stack([share, 1 - share], axis=-1).repeat(both // 2, axis=-1)  # [draw, 2n]
    group["null_energy"] = np.where(known[:, :, None, None], halves, np.nan)
    group["rank"] = np.full((tasks, tasks, logits), RANK)
