# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Task vector bases again: similarities, their Laplacians, and the models merged of each partition.

Not with bases that a method with data made, whose formula [merging] has again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

import numpy as np
import torch

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.bases import clustering
from taugrid_analysis.quantities.merging import data_formulas, formulas
from taugrid_analysis.quantities.merging.formulas import Settings
from taugrid_analysis.quantities.merging.oracle_models import Model
from taugrid_analysis.quantities.merging.recompute import merged
from taugrid_analysis.recompute.checks import (
    Check,
    Place,
    Reading,
    exact,
    names,
    places,
    relative,
    share,
    stored,
)
from taugrid_analysis.recompute.models import chosen_means, merged_tasks, right_along
from taugrid_analysis.recompute.oracle import Oracle, Parameters, flat
from taugrid_analysis.run.group import CHOSEN

GROUP = "bases"
SLOW = 20  # places of one quantity: each is a merge


def checks(oracle: Oracle) -> Iterator[Check]:
    if not names(oracle, GROUP):
        return
    yield from _similarity(oracle)
    yield from _follows(oracle)
    settings = oracle.inputs.config.get(GROUP, {})
    inside, outside = (dict(settings.get(name, {})) for name in ("merge_in", "merge_out"))
    if formulas.has(inside.get("method", ""), inside) and merges_bases(outside):
        yield from _models(oracle, inside, outside)


def _similarity(oracle: Oracle) -> Iterator[Check]:
    @lru_cache(2)
    def cosine(regime: str) -> Array:
        tau = torch.stack([flat(oracle.tau(regime, t)) for t in range(len(oracle.tasks))]).numpy()
        norm = np.linalg.norm(tau, axis=1)
        return np.asarray(tau @ tau.T / np.outer(norm, norm))

    @lru_cache(2)
    def laplacians(regime: str) -> dict[str, Array]:
        of = merged_tasks(oracle, regime)
        w = np.abs(oracle.results[f"{GROUP}/{regime}/cosine"][()])[np.ix_(of, of)]
        np.fill_diagonal(w, 0)
        degree = w.sum(1)
        scaled = np.eye(len(w)) - w / np.sqrt(np.outer(degree, degree))
        return {
            "eigenvalues": filled(np.linalg.eigvalsh(np.diag(degree) - w)),
            "normalised_eigenvalues": filled(np.linalg.eigvalsh(scaled)),
        }

    def filled(values: Array) -> Array:
        """[T], NaN beyond the tasks that are merged."""
        return np.pad(values, (0, len(oracle.tasks) - len(values)), constant_values=np.nan)

    def similar(place: Place) -> Reading:
        value = stored(oracle, GROUP, "cosine", place)
        return relative(value, float(cosine(place[0])[place[1:]]), floor=1e-5)

    yield Check(GROUP, "cosine", places(oracle, GROUP, "cosine"), similar)
    for name in ("eigenvalues", "normalised_eigenvalues"):

        def value(place: Place, name: str = name) -> Reading:
            again = laplacians(place[0])[name][place[1]]
            return relative(stored(oracle, GROUP, name, place), float(again), floor=1e-9)

        yield Check(GROUP, name, places(oracle, GROUP, name), value)

    def partition(place: Place) -> Reading:
        node, of = oracle.results[f"{GROUP}/{place[0]}"], merged_tasks(oracle, place[0])
        labels = node["labels"][place[1], 0].astype(int)[of]
        return clustering.as_good_as_any(
            node["cosine"][()][np.ix_(of, of)], labels, int(node["clusters"][place[1]])
        )

    def clustered(place: Place) -> bool:
        """The spectral partition of one k, where there is one and no cluster is split by sign."""
        node = oracle.results[f"{GROUP}/{place[0]}"]
        return (
            place[2:] == (0, 0) and node["labels"][place[1], 0].max() >= 0 and node.attrs["split_below"] == -1
        )

    if len(oracle.tasks) <= clustering.COUNTED:
        yield Check(
            GROUP,
            "labels",
            [place for place in places(oracle, GROUP, "labels") if clustered(place)],
            partition,
        )


def _follows(oracle: Oracle) -> Iterator[Check]:
    """What is chosen by validation points, and its means."""

    def measure_of(name: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, row, p = place
            node, single = oracle.results[f"{GROUP}/{regime}"], oracle.results[f"single_task/{regime}"]
            of = np.flatnonzero(node["labels"][row, p] >= 0)
            if not len(of):
                return exact(node[name][row, p], float("nan"))
            validation, accuracy = (
                node[what][row, p][..., of] for what in ("validation_accuracy", "accuracy")
            )
            again = chosen_means(node["alpha"][()], validation, accuracy, single, of)
            return exact(node[name][row, p], again[name])

        return measure

    for name in CHOSEN:
        yield Check(GROUP, name, places(oracle, GROUP, name), measure_of(name))


def _models(oracle: Oracle, inside: Settings, outside: Settings) -> Iterator[Check]:
    @lru_cache(2)
    def direction(regime: str, row: int, p: int) -> Parameters:
        labels = oracle.results[f"{GROUP}/{regime}/labels"][row, p]
        clusters = [np.flatnonzero(labels == cluster) for cluster in range(labels.max() + 1)]
        every = [basis_of(oracle, regime, inside, members) for members in clusters]
        return merged_bases(oracle, regime, outside, clusters, every)

    def accuracy(regime: str, row: int, p: int, alpha: float, t: int, split: str) -> tuple[float, int]:
        right = right_along(oracle, regime, direction(regime, row, p), alpha, t, GROUP, split)
        return float(right.mean()), len(right)

    def tested(place: Place) -> Reading:
        regime, row, p, t = place
        alpha = float(oracle.results[f"{GROUP}/{regime}/coefficient"][row, p])
        return share(stored(oracle, GROUP, "accuracy", place), *accuracy(regime, row, p, alpha, t, "test"))

    def validated(place: Place) -> Reading:
        regime, row, p, a, t = place
        alpha = float(oracle.results[f"{GROUP}/{regime}/alpha"][a])
        again = accuracy(regime, row, p, alpha, t, "validation")
        return share(stored(oracle, GROUP, "validation_accuracy", place), *again)

    for name, measure in (("accuracy", tested), ("validation_accuracy", validated)):
        every = [
            place
            for place in places(oracle, GROUP, name)
            if oracle.results[f"{GROUP}/{place[0]}/labels"][place[1], place[2], place[-1]] >= 0
        ]
        yield Check(GROUP, name, every, measure, SLOW)


def basis_of(oracle: Oracle, regime: str, inside: Settings, members: Sequence[int] | Array) -> Parameters:
    """The basis that the cluster of these tasks becomes."""
    every = [oracle.tau(regime, int(t)) for t in members]
    return every[0] if len(every) == 1 else merged(inside["method"], inside, every)


def merges_bases(outside: Settings) -> bool:
    """Whether merged_bases() knows the method."""
    method = outside.get("method", "")
    if outside.get("clusters", 1) != 1:  # of masks, by a partition that no file has
        return False
    return method in data_formulas.FORMULAS or formulas.has(method, outside)


def merged_bases(
    oracle: Oracle,
    regime: str,
    outside: Settings,
    clusters: Sequence[Sequence[int] | Array],
    bases: list[Parameters],
) -> Parameters:
    """τ of these clusters' bases; a method with data takes of each the model θ0 + B and its tasks' data."""
    method = outside["method"]
    if method not in data_formulas.FORMULAS:
        return merged(method, outside, bases)
    both = zip(clusters, bases, strict=True)
    models = [Model(oracle, regime, basis, tuple(int(t) for t in members)) for members, basis in both]
    return data_formulas.FORMULAS[method](models, outside, partial(data_formulas.drawn, oracle, outside))
