# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The first step of training again."""

from __future__ import annotations

from collections.abc import Iterator

from taugrid_analysis.recompute import nets
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact, names, places, relative, stored
from taugrid_analysis.recompute.oracle import Oracle


def checks(oracle: Oracle) -> Iterator[Check]:
    """The first step's loss and penalty, at the model that training starts from, on the first batch."""
    group = "training"
    regimes = [name for name in names(oracle, group) if oracle.regime(name).vectors_of == name]

    def first(place: Place) -> Reading:
        regime, t, _ = place
        least = setting(oracle, regime, "random_crop", 1.0)
        x, y = oracle.batch(t, 0, int(setting(oracle, regime, "batch")), least)
        edits = {t: 1.0} if regime == "tau_jp_continue" else {}
        start = "linear" if edits else regime
        if oracle.stored_statistics and not oracle.regime(regime).linear:
            z = nets.by_the_batch(oracle.model, oracle.stored_statistics | oracle.theta0, x)
            z = oracle.read(oracle.theta0, z, t, begin=oracle.model.last)
        else:
            z = oracle.through(start, oracle.step(start, edits), x, t)
        again = float(oracle.loss(t, oracle.logits(t, z), y))
        return relative(stored(oracle, group, "loss", place), again, 1e-3)

    every = [place for place in places(oracle, group, "loss", regimes) if place[2] == 0]
    if every:
        yield Check(group, "loss of the first step", every, first)
    zero = [name for name in regimes if name != "tau_jp_continue"]
    every = [place for place in places(oracle, group, "penalty", zero) if place[2] == 0]
    if every:
        yield Check(
            group,
            "penalty of the first step",
            every,
            lambda place: exact(stored(oracle, group, "penalty", place), 0.0),
        )


def setting(oracle: Oracle, regime: str, key: str, otherwise: float = float("nan")) -> float:
    """The key of [finetune.REGIME], else of [finetune], else what programs did that did not know it."""
    section = oracle.inputs.config.get("finetune", {})
    return float(section.get(regime, {}).get(key, section.get(key, otherwise)))
