# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One row a regime, pair, layer and α: how far mixed weights give mixed features (cross-task linearity)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import xarray as xr

from taugrid_analysis.errors import InputError
from taugrid_analysis.quantities.linearity import NEGATED as NEGATED_LINEARITY
from taugrid_analysis.quantities.linearity import QUANTITIES as LINEARITY
from taugrid_analysis.run.results import Results

STATISTICS = ("", "_deviation", "_lower", "_median", "_upper")  # as they lie along /linearity's last axis


def layers(results: Results) -> pd.DataFrame:
    """Columns regime, pair, task_1, task_2, layer, alpha, and of every quantity five.

    Quantities: cosine, coefficient, baseline, error, and centred_… of differences from θ0's features; class_…
    of the class token alone. X is the mean over both tasks' points, X_deviation their standard deviation,
    X_lower, X_median, X_upper the quartiles. alpha is the weight of task_1's model. Layer 0 is the output of
    the embedding, the last one the encoder's.
    """
    return _by_layer(results, "linearity", "alpha")


def additions(results: Results) -> pd.DataFrame:
    """The same of θ0 + λ(τ₁ + τ₂) against θ0 + 2λτ₁ and θ0 + 2λτ₂, lambda in place of alpha."""
    return _by_layer(results, "layer_addition", "lambda")


def negations(results: Results) -> pd.DataFrame:
    """The same of θ0 against θ0 + λτ and θ0 − λτ, a task in place of a pair; only baselines are centred."""
    return _by_layer(results, "layer_negation", "lambda")


def averages(results: Results) -> pd.DataFrame:
    """The same of the mean of several models' weights: one row a regime, data set and layer.

    Columns: data (a task's name, or that of the data of several fine-tunings) and models (how many) in place
    of a pair and alpha. The baseline is the mean over the models of the cosine of theirs and the mixed one's
    features.
    """
    parts = []
    for regime in results.names("layer_averages"):
        data = results.data("layer_averages", regime)
        if data is None:
            continue
        first, layer = (place.ravel() for place in np.indices(data["cosine"].shape[:2]))
        names = np.array([results.sources[int(t)] for t in data["data"]], dtype=object)
        columns: dict[str, object] = {"regime": regime, "data": names[first]}
        columns["models"] = data["sets"].to_numpy().sum(axis=1).astype(int)[first]
        columns["layer"] = data["layer"].to_numpy().astype(int)[layer]
        parts.append(pd.DataFrame(columns | _statistics(data, LINEARITY, len(first))))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _statistics(data: xr.Dataset, names: Iterable[str], rows: int) -> dict[str, object]:
    columns: dict[str, object] = {}
    for name in names:
        if name in data:
            values = data[name].to_numpy().reshape(rows, len(STATISTICS))
            columns |= {f"{name}{ending}": values[:, place] for place, ending in enumerate(STATISTICS)}
    return columns


def _by_layer(results: Results, group: str, axis: str) -> pd.DataFrame:
    parts = []
    for regime in results.names(group):
        data = results.data(group, regime)
        if data is None:
            continue
        first, layer, weight = (place.ravel() for place in np.indices(data["cosine"].shape[:3]))
        names = np.array(results.tasks, dtype=object)
        columns: dict[str, object] = {"regime": regime}
        if group == "layer_negation":
            columns["task"] = names[first]
        else:
            pairs = np.array([results.pair_name(p) for p in range(len(results.pairs))], dtype=object)
            columns["pair"] = pairs[first]
            columns |= {f"task_{side + 1}": names[results.pairs[first, side]] for side in (0, 1)}
        columns |= {"layer": data["layer"].to_numpy().astype(int)[layer], axis: data[axis].to_numpy()[weight]}
        measured = NEGATED_LINEARITY if group == "layer_negation" else LINEARITY
        parts.append(pd.DataFrame(columns | _statistics(data, measured, len(first))))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


PAPERS_LAMBDA = 0.4


def near_papers(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the λ nearest to the paper's 0.4."""
    return _nearest(frame, "lambda", PAPERS_LAMBDA)


def near_half(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the α nearest to ½, where the two models weigh alike."""
    return _nearest(frame, "alpha", 0.5)


def _nearest(frame: pd.DataFrame, axis: str, wanted: float) -> pd.DataFrame:
    """The rows of one value alone: of two as near, the first."""
    if frame.empty:
        return frame
    distance = (frame[axis] - wanted).abs().round(9)  # 0.5 is as far from 0.4 as 0.3 is
    return frame[frame[axis] == frame.loc[distance.idxmin(), axis]]


def last_layer(data: xr.Dataset) -> int:
    """The layer that is the encoder's output. Raises InputError where the file does not say."""
    if "last_layer" not in data.attrs:
        raise InputError("attribute last_layer is missing", "/linearity", "a number: the encoder's output")
    return int(data.attrs["last_layer"])
