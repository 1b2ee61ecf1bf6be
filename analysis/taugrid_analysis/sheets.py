# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the report's sections draw, as frames: each is the CSV that its section links to."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis import measures, outcomes
from taugrid_analysis.bounds import bounds
from taugrid_analysis.figures import grids, kernel, runs
from taugrid_analysis.run import Run


def matched(run: Run) -> pd.DataFrame:
    """ξ(α,α): mean and quartiles over pairs, against α and against the length of the step."""
    found = grids.grids(run)
    known = {name: data for name in found if (data := run.data("similarity", name)) is not None}
    common = measures.matched_norm(found, known, run.results.pairs)
    curves = [(name, "alpha", *measures.diagonal(grid)) for name, grid in found.items()]
    curves += (
        [(name, "length", common.length, error) for name, error in common.error.items()] if common else []
    )
    parts = []
    for name, axis, x, values in curves:
        low, high = np.nanquantile(values, [0.25, 0.75], axis=0)
        told = {"regime": name, "axis": axis, "x": x, "mean": values.mean(axis=0), "low": low, "high": high}
        parts.append(pd.DataFrame(told))
    return pd.concat(parts) if parts else pd.DataFrame()


def sweep(run: Run, experiment: str) -> pd.DataFrame:
    """Every point of the curves over α."""
    frame = run.sweeps[run.sweeps["experiment"] == experiment]
    return frame.dropna(axis="columns", how="all")


def columns(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """These columns and their errors, of rows that have any of them."""
    wanted = [one for name in names for one in (name, f"{name}_error") if one in frame.columns]
    return frame[wanted].dropna(how="all").reset_index()


def continuation(run: Run) -> pd.DataFrame:
    parts = []
    for name in run.results.names("continuation"):
        data = run.data("continuation", name)
        assert data is not None
        product, accuracy = outcomes.pair_trace(data, run.results.pairs), data["pair_normalized"].to_numpy()
        for pair in range(len(run.results.pairs)):
            told = {"regime": name, "step": data["step"].to_numpy(), "pair": run.results.pair_name(pair)}
            parts.append(pd.DataFrame(told | {"tau_jp": product[:, pair], "normalized": accuracy[:, pair]}))
    return pd.concat(parts) if parts else pd.DataFrame()


def bound(run: Run) -> pd.DataFrame:
    found = {
        name: frame for name in run.results.names("smoothness") if (frame := bounds(run, name)) is not None
    }
    return pd.concat(found, names=["regime"]).reset_index() if found else pd.DataFrame()


def energy(run: Run) -> pd.DataFrame:
    """The points of the histograms that are drawn."""
    parts = []
    for start in run.results.names("ntk"):
        data = run.data("ntk", start)
        assert data is not None
        chosen = kernel.median_pair(measures.own_share(data["local_energy"].to_numpy()))
        for values, name, _ in kernel.parts(data, *chosen, run.results.tasks) if chosen is not None else []:
            parts.append(pd.DataFrame({"start": start, "points": name, "energy": values}))
    return pd.concat(parts) if parts else pd.DataFrame()


def training(run: Run) -> pd.DataFrame:
    """Moving averages, mean over tasks, at the steps that are drawn."""
    parts = []
    for name in run.results.names("training"):
        place, smooth = runs.smoothed(run, name)
        parts.append(pd.DataFrame({"regime": name, "step": place, "loss": np.nanmean(smooth, axis=0)}))
    return pd.concat(parts) if parts else pd.DataFrame()


def cost(run: Run) -> pd.DataFrame:
    known = {name: data for name in run.results.names("cost") if (data := run.data("cost", name)) is not None}
    rows = {name: {str(key): float(value) for key, value in data.items()} for name, data in known.items()}
    return pd.DataFrame(rows).T.rename_axis("regime").reset_index()


def timings(run: Run) -> pd.DataFrame:
    units = pd.DataFrame(
        [(one.rank, one.kind, one.seconds) for one in run.results.units()],
        columns=["rank", "kind", "seconds"],
    )
    return units.groupby(["rank", "kind"], as_index=False, sort=False).sum()
