# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a training step costs in each regime (paper 1, appendix B; paper 4, table 4)."""

from __future__ import annotations

from taugrid_analysis import outcomes
from taugrid_analysis.results import Results
from taugrid_analysis.text_table import Column, Table, Value

MEGA, GIGA = 1e6, 1e9


def cost(results: Results) -> Table:
    table = Table(
        "cost",
        "Cost of a training step",
        [
            Column("regime"),
            Column("parameters"),
            Column("trained"),
            Column("optimiser MB", 1),
            Column("peak MB", 1),
            Column("s a step", 4),
            Column("÷ standard", 2),
            Column("forward GF", 3),
            Column("J(x)τ GF", 3),
            Column("step GF", 3),
            Column("batch"),
        ],
    )
    ratios = outcomes.cost_ratios({name: results.cost(name) for name in results.names("cost")})
    for regime in results.names("cost"):
        record = results.cost(regime)
        assert record is not None
        row: list[Value] = [
            regime,
            int(record.parameters),
            int(record.trainable_parameters),
            record.optimiser_memory / MEGA,
            record.peak_memory / MEGA,
            record.seconds_per_step,
            ratios[regime],
            record.forward_flops / GIGA,
            record.jvp_flops / GIGA,
            record.step_flops / GIGA,
            record.batch,
        ]
        table.rows.append(row)
    if table.rows:
        table.notes.append(
            "peak: most bytes of tensors alive at once during a step; ÷ standard: seconds a step; GF: 10⁹"
            " floating point operations. Seconds are this machine's."
        )
    return table
