# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Seconds of a training step beside standard fine-tuning's."""

from __future__ import annotations

from taugrid_analysis.run.results import Results


def cost_ratios(results: Results) -> dict[str, float]:
    """Seconds a step over those of standard fine-tuning."""
    costs = {name: results.data("cost", name) for name in results.names("cost")}
    seconds = {name: float(cost["seconds_per_step"]) for name, cost in costs.items() if cost is not None}
    unit = seconds.get("standard", float("nan"))
    return {name: value / unit if unit > 0 else float("nan") for name, value in seconds.items()}
