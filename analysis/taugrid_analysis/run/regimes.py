# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The names that stand below the groups of results.h5, and what the regimes among them are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from taugrid_analysis.files import label

ORDER = (
    "standard",
    "posthoc",
    "linear",
    "attention",
    "attention_posthoc",
    "attention+bias",
    "attention+mlp",
    "attention+mlp+bias",
    "lora",
    "tau_jp",
    "tau_jp_strict",
    "tau_jp_incremental",
    "tau_jp_continue",
)
STARTS = ("pretrained", "random")  # names of θ0, which stand beside the regimes

# What programs of before wrote of regimes: names alone.
_JOINT = {"multitask": "standard", "multitask_linear": "linear"}
_LINEARISED = {"posthoc": "standard", "attention_posthoc": "attention"}


@dataclass(frozen=True)
class Regime:
    """What a regime is, as the attributes of its groups say."""

    linear: bool  # its function is f(x; θ0) + J(x)(θ − θ0), which holds θ0 beside θ
    vectors_of: str  # the regime that made its task vectors: itself, or another; "" for a joint model
    single: str = ""  # for one model of all tasks: the regime that trains the same on each task alone

    @property
    def joint(self) -> bool:
        return bool(self.single)


def described(name: str, attributes: Callable[[str], Mapping[str, Any]]) -> Regime:
    """A regime by the attributes of /single_task/NAME or /multitask/NAME; `attributes(path)` has them."""
    single, joint = attributes(f"single_task/{name}"), attributes(f"multitask/{name}")
    if "vectors_of" in single and "linear" in single:
        return Regime(bool(single["linear"]), label(single["vectors_of"]))
    if "single" in joint and "linear" in joint:
        return Regime(bool(joint["linear"]), "", label(joint["single"]))
    linear = name in {*_LINEARISED, "linear", "multitask_linear"} or name.startswith("tau_jp")
    if name in _JOINT:
        return Regime(linear, "", _JOINT[name])
    return Regime(linear, _LINEARISED.get(name, name))


def crops(configuration: Mapping[str, Any], regime: str) -> bool:
    """Whether training saw random crops, by a run's config.toml; programs before schema 2 had none."""
    section = configuration.get("finetune", {})
    override = section.get(regime, {})
    settings = {**section, **(override if isinstance(override, dict) else {})}
    values = [value for key, value in settings.items() if "crop" in key]
    return any(value not in (False, 0, 1, "", "off", "none", [1, 1]) for value in values)


def ordered(names: set[str]) -> list[str]:
    known = [name for name in ORDER if name in names]
    return known + sorted(names - set(known))
