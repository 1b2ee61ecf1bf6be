# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""How a regime was trained, as /training/R says."""

from __future__ import annotations

import math
from dataclasses import dataclass

from taugrid_analysis.run.older_schema import PENALTY
from taugrid_analysis.run.opened import Run

FORMS = {"squared": "‖Jτ‖²", "norm": "‖Jτ‖"}


@dataclass(frozen=True)
class Penalty:
    form: str
    others: str
    weight: float  # λ; NaN where it is not recorded

    @property
    def title(self) -> str:
        """Runs with other penalties are no seeds of one experiment."""
        if not self.others:
            return ""
        weight = f", λ {self.weight:g}" if math.isfinite(self.weight) else ""
        return f"{self.form}, {self.others}{weight}"


def is_penalised(regime: str) -> bool:
    return regime.startswith("tau_jp")


def penalty_form(run: Run, regime: str) -> Penalty:
    """As recorded; before schema 2 there was but one: the squared norm, others added up."""
    if not is_penalised(regime):
        return Penalty("none", "", float("nan"))
    attributes = run.results.attributes(f"training/{regime}")
    form, others = (
        str(attributes.get(key, usual)) for key, usual in zip(PENALTY, ("squared", "sum"), strict=True)
    )
    try:
        weight = float(attributes.get("penalty_weight", "nan"))
    except (TypeError, ValueError):
        weight = float("nan")
    return Penalty(FORMS.get(form, form), others, weight)
