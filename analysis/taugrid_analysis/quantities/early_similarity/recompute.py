# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Similarities on the way of training again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import torch

from taugrid_analysis.files import text
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.numbers.means import rand_index
from taugrid_analysis.quantities.bases import clustering
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact, names, places, relative, stored
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat, load, parameters

GROUP = "early_similarity"


def _marks(oracle: Oracle, regime: str) -> list[str]:
    return text(oracle.results[f"{GROUP}/{regime}"].attrs["marks"]).split(", ")


def _gram(vectors: list[Parameters]) -> Array:
    flattened = torch.stack([flat(tau) for tau in vectors]).numpy()
    return np.asarray(flattened @ flattened.T)


def cosine_of(gram: Array) -> Array:
    norm = np.sqrt(np.diag(gram))
    return np.asarray(gram / np.outer(norm, norm))


def checks(oracle: Oracle) -> Iterator[Check]:
    if not names(oracle, GROUP):
        return

    @lru_cache(8)
    def gram(regime: str, place: int) -> Array:
        mark, tasks = _marks(oracle, regime)[place], range(len(oracle.tasks))
        if mark == "end":
            return _gram([oracle.tau(regime, t) for t in tasks])
        vectors = []
        for t in tasks:
            kept = parameters(load(oracle.inputs.kept(regime, oracle.tasks[t], mark), oracle.of_texts))
            vectors.append({name: v - oracle.theta0[name] for name, v in kept.items()})
        return _gram(vectors)

    def cosine(place: Place) -> Reading:
        again = cosine_of(gram(place[0], place[1]))[place[2:]]
        return relative(stored(oracle, GROUP, "cosine", place), float(again), floor=2e-5)

    def norm(place: Place) -> Reading:
        again = np.sqrt(gram(place[0], place[1])[place[2], place[2]])
        return relative(stored(oracle, GROUP, "norm", place), float(again))

    def eigenvalue(place: Place) -> Reading:
        w = np.abs(oracle.results[f"{GROUP}/{place[0]}/cosine"][place[1]])
        np.fill_diagonal(w, 0)
        again = np.linalg.eigvalsh(np.diag(w.sum(1)) - w)[place[2]]
        return relative(stored(oracle, GROUP, "eigenvalues", place), float(again), floor=1e-9)

    def index(place: Place) -> Reading:
        labels = oracle.results[f"{GROUP}/{place[0]}/labels"][()]
        return exact(stored(oracle, GROUP, "rand_index", place), rand_index(labels[place[1]], labels[-1]))

    def chosen(place: Place) -> Reading:
        node, mark = oracle.results[f"{GROUP}/{place[0]}"], place[1]
        k = int(node["chosen_clusters"][mark])
        return exact(stored(oracle, GROUP, "labels", place), node["every_labels"][mark, k - 1, place[2]])

    def partition(place: Place) -> Reading:
        regime, mark, row, _ = place
        node = oracle.results[f"{GROUP}/{regime}"]
        return clustering.as_good_as_any(
            node["cosine"][mark], node["every_labels"][mark, row].astype(int), row + 1
        )

    measures = {
        "cosine": cosine,
        "norm": norm,
        "eigenvalues": eigenvalue,
        "rand_index": index,
        "labels": chosen,
    }
    for name, measure in measures.items():
        if name != "labels" or places(oracle, GROUP, "every_labels"):
            yield Check(GROUP, name, places(oracle, GROUP, name), measure)
    if len(oracle.tasks) <= clustering.COUNTED:
        whole = [place for place in places(oracle, GROUP, "every_labels") if place[3] == 0]
        yield Check(GROUP, "every_labels", whole, partition)
