# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a training step costs in each regime (paper 1, appendix B; paper 4, table 4)."""

from __future__ import annotations

from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.quantities.cost.ratios import cost_ratios
from taugrid_analysis.run.opened import Run

MEGA, GIGA = 1e6, 1e9
BYTES = 4  # of a parameter in single precision


def cost(run: Run) -> Table:
    table = Table(
        "cost",
        "Cost of a training step",
        [
            Column("regime"),
            Column("parameters"),
            Column("trained"),
            Column("weights MB", 1),
            Column("optimiser MB", 1),
            Column("peak MB", 1),
            Column("s a step", 4, timed=True),
            Column("÷ standard", 2, timed=True),
            Column("forward GF", 3),
            Column("J(x)τ GF", 3),
            Column("step GF", 3),
            Column("batch"),
        ],
    )
    ratios = cost_ratios(run.results)
    for regime in run.results.names("cost"):
        data = run.data("cost", regime)
        assert data is not None
        known = {str(name): run.results.positive(data, str(name)) for name in data.data_vars}
        models = 2 if run.results.regime(regime).linear else 1
        batch = data.attrs.get("batch")
        row: list[Value] = [
            regime,
            int(known["parameters"]),
            int(known["trainable_parameters"]),
            models * BYTES * known["parameters"] / MEGA,
            known["optimiser_memory"] / MEGA,
            known["peak_memory"] / MEGA,
            known["seconds_per_step"],
            ratios[regime],
            known["forward_flops"] / GIGA,
            known["jvp_flops"] / GIGA,
            known["step_flops"] / GIGA,
            int(batch) if batch is not None else None,
        ]
        table.rows.append(row)
    if table.rows:
        table.notes += [
            "weights: four bytes a parameter, twice for θ0 beside θ where the model is linearised: what table"
            " 4 of the attention paper calls cost (891.6 MB for 222.9 M parameters). peak: most bytes of"
            " tensors alive at once during a step, which that table does not have.",
            "÷ standard: seconds a step; GF: 10⁹ floating point operations. Seconds are this machine's.",
        ]
    return table


TABLES = {"cost": cost}
