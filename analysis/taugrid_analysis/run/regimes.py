# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The names that stand below the groups of results.h5, and which of them share task vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ORDER = (
    "standard",
    "posthoc",
    "linear",
    "attention",
    "attention_posthoc",
    "attention+bias",
    "attention+mlp",
    "attention+mlp+bias",
    "tau_jp",
    "tau_jp_strict",
    "tau_jp_incremental",
    "tau_jp_continue",
)
STARTS = ("pretrained", "random")  # names of θ0, which stand beside the regimes

# One model of all tasks, no task vectors; and the regime that trains the same on single tasks.
JOINT = {"multitask": "standard", "multitask_linear": "linear"}

# Not fine-tuned: the same task vectors as another regime's, put into the linearised model.
VECTORS_OF = {"posthoc": "standard", "attention_posthoc": "attention"}


def same_vectors(regime: str) -> str | None:
    """The other regime with the same task vectors."""
    back = {trained: linearised for linearised, trained in VECTORS_OF.items()}
    return VECTORS_OF.get(regime, back.get(regime))


def is_linear(regime: str) -> bool:
    """Whether its function is f(x; θ0) + J(x)(θ − θ0), which holds θ0 beside θ."""
    return regime in {*VECTORS_OF, "linear", "multitask_linear"} or regime.startswith("tau_jp")


def crops(configuration: Mapping[str, Any], regime: str) -> bool:
    """Whether training saw random crops, by a run's config.toml; programs before schema 2 had none."""
    section = configuration.get("finetune", {})
    own = section.get(regime, {})
    told = {**section, **(own if isinstance(own, dict) else {})}
    found = [value for key, value in told.items() if "crop" in key]
    return any(value not in (False, 0, 1, "", "off", "none", [1, 1]) for value in found)


def ordered(names: set[str]) -> list[str]:
    known = [name for name in ORDER if name in names]
    return known + sorted(names - set(known))
