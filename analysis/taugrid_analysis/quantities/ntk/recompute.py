# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The NTK again: products of gradients, its eigenvalues and local energies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact, places, stored
from taugrid_analysis.recompute.common import each_place
from taugrid_analysis.recompute.oracle import Oracle

CUT_OFF = 1e-6  # of the largest singular value, below which eigenfunctions of the NTK are left out


def checks(oracle: Oracle) -> Iterator[Check]:
    group = "ntk"

    def start(name: str) -> dict[str, Tensor]:
        init = oracle.inputs.config.get("model", {}).get("init", "pretrained")
        return oracle.random_theta() if name == "random" and init != "random" else oracle.theta0

    def product(value: float, name: str, t: int, c: int, places: list[tuple[int, int]]) -> Reading:
        """∇f_c(x)·∇f_c(x') at θ0, of two places (task, row of its training split)."""
        if c >= oracle.heads[t].classes:
            return exact(value, float("nan"))
        points = [oracle.sample("train", task, [row])[0] for task, row in places]
        free = oracle.free(f"{group}/{name}")
        first, second = (oracle.gradient_of_logit(start(name), t, c, x, free) for x in points)
        return Reading(value, float(first @ second), 1e-4 * float(first.norm() * second.norm()))

    def entry(place: Place) -> Reading:
        name, t, c, i, s, j = place
        index = oracle.results[f"{group}/{name}/sample_index"]
        ends = [(t, int(index[t, i])), (s, int(index[s, j]))]
        return product(stored(oracle, group, "gram", place), name, t, c, ends)

    def null_entry(place: Place) -> Reading:
        name, t, c, i, d, j = place
        node = oracle.results[f"{group}/{name}"]
        ends = [(t, int(node["sample_index"][t, i])), (t, int(node["null_sample_index"][t, d, j]))]
        return product(stored(oracle, group, "null_gram", place), name, t, c, ends)

    def both(place: Place) -> np.ndarray:
        name, t, s, c = place[:4]
        gram = oracle.results[f"{group}/{name}/gram"]
        return np.concatenate([gram[t, c, :, t], gram[t, c, :, s]], axis=1).astype(np.float64)

    def with_more_of_itself(place: Place) -> np.ndarray:
        name, t, c, d = place[:4]
        node = oracle.results[f"{group}/{name}"]
        blocks = [node["gram"][t, c, :, t], node["null_gram"][t, c, :, d]]
        return np.concatenate(blocks, axis=1).astype(np.float64)

    def kept(name: str, sigma: np.ndarray) -> np.ndarray:
        cut = float(oracle.results[f"{group}/{name}"].attrs.get("cut_off", CUT_OFF))
        return sigma > cut * sigma[0]

    def energy_of(value: float, name: str, matrix: np.ndarray, point: int) -> Reading:
        """Σ φ² at a point, over the right singular vectors of the matrix that the cut-off keeps."""
        if not np.isfinite(matrix).all():
            return exact(value, float("nan"))
        _, sigma, right = np.linalg.svd(matrix, full_matrices=False)
        return Reading(value, float((right[kept(name, sigma)] ** 2).sum(axis=0)[point]), 1e-6)

    def energy(place: Place) -> Reading:
        value = stored(oracle, group, "local_energy", place)
        if place[1] == place[2]:
            return exact(value, float("nan"))
        return energy_of(value, place[0], both(place), place[4])

    def null_energy(place: Place) -> Reading:
        value = stored(oracle, group, "null_energy", place)
        return energy_of(value, place[0], with_more_of_itself(place), place[4])

    def rank(place: Place) -> Reading:
        """0 where nothing was measured."""
        matrix, value = both(place), stored(oracle, group, "rank", place)
        if place[1] == place[2] or not np.isfinite(matrix).all():
            return exact(value, 0.0)
        return exact(value, float(kept(place[0], np.linalg.svd(matrix, compute_uv=False)).sum()))

    def null_row(place: Place) -> Reading:
        """The training points after the first sample, in the task's drawn order: no draw shares one."""
        name, t, d, i = place
        node = oracle.results[f"{group}/{name}"]
        draws_, points = node["null_sample_index"].shape[1:]
        count = oracle.count("train", t)
        rows = draws.sample(oracle.inputs.seed(), "train", oracle.sources[t], count, (1 + draws_) * points)
        return exact(stored(oracle, group, "null_sample_index", place), rows[(1 + d) * points + i])

    def eigenvalue(place: Place) -> Reading:
        name, t, c, k = place
        gram = oracle.results[f"{group}/{name}/gram"][t, c, :, t].astype(np.float64)
        value = stored(oracle, group, "eigenvalues", place)
        if not np.isfinite(gram).all():
            return exact(value, float("nan"))
        again = np.linalg.eigvalsh(gram)[::-1][k]
        return Reading(value, float(again), 1e-7 * float(np.abs(gram).max()) * len(gram))

    def null(place: Place) -> Reading:
        """The share follows from the energies of its own draw."""
        name, t, c, d = place
        parts = oracle.results[f"{group}/{name}/null_energy"][t, c, d].astype(np.float64)
        half = len(parts) // 2
        again = parts[:half].sum() / parts.sum() if np.isfinite(parts).all() else float("nan")
        return exact(stored(oracle, group, "null_share", place), again)

    yield from each_place(oracle, group, "gram", entry)
    yield from each_place(oracle, group, "local_energy", energy)
    yield from each_place(oracle, group, "eigenvalues", eigenvalue)
    yield from each_place(oracle, group, "rank", rank)
    yield from each_place(oracle, group, "null_gram", null_entry)
    if places(oracle, group, "null_gram"):
        yield from each_place(oracle, group, "null_energy", null_energy)
        yield from each_place(oracle, group, "null_sample_index", null_row)
    yield from each_place(oracle, group, "null_share", null)
