# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Classes, the model's identity, and the rows of every sample again."""

from __future__ import annotations

from collections.abc import Iterator

from taugrid_analysis.files import text
from taugrid_analysis.recompute import draws
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact
from taugrid_analysis.recompute.common import split_of
from taugrid_analysis.recompute.oracle import Oracle


def checks(oracle: Oracle) -> Iterator[Check]:
    """Classes, and the rows of every sample, which follow from the run's seed."""

    def classes(place: Place) -> Reading:
        t = place[0]
        return exact(float(oracle.results["tasks/classes"][t]), float(oracle.heads[t].classes))

    yield Check("tasks", "classes", [(t,) for t in range(len(oracle.tasks))], classes)
    if "tasks/space" in oracle.results:
        told_of = [text(space) for space in oracle.results["tasks/space"][()]]
        yield Check(
            "tasks",
            "space is another than the readout's",
            [(t,) for t in range(len(oracle.tasks))],
            lambda place: exact(float(told_of[place[0]] != oracle.space(place[0])), 0.0),
        )
    count = sum(p.numel() for p in oracle.theta0.values())
    yield Check(
        "model",
        "parameters",
        [()],
        lambda place: exact(float(oracle.results["model"].attrs["parameters"]), count),
    )
    told_of_theta0 = text(oracle.results["model"].attrs["fingerprint"])
    yield Check(
        "model",
        "θ0 is another than the fingerprint's",
        [()],
        lambda place: exact(float(oracle.fingerprint() != told_of_theta0), 0.0),
    )
    places: list[Place] = []
    oracle.results.visititems(
        lambda name, node: (
            places.extend([(name, t) for t in range(len(oracle.tasks))])
            if name.endswith(("/sample_index", "/validation_sample_index")) and getattr(node, "ndim", 0) == 2
            else None
        )
    )

    def rows(place: Place) -> Reading:
        """The number of rows that are not those drawn for this split and task."""
        name, t = place
        stored = oracle.rows(name, t)
        group, regime, *_ = name.split("/")
        if name.endswith("/validation_sample_index"):
            split = "validation"
        elif group in ("smoothness", "ntk", "barrier"):
            split = "train"
        else:
            split = split_of(oracle, group, regime)
        count = oracle.count(split, t)
        drawn = draws.sample(oracle.inputs.seed(), split, oracle.sources[t], count, len(stored))
        return exact(float(sum(a != b for a, b in zip(stored, drawn, strict=True))), 0.0)

    if places:
        yield Check("samples", "rows that were not drawn", places, rows)
