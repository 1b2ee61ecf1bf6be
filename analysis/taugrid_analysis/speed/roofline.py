# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What bounds each case of the bench: the roofline model (Williams et al. 2009).

A case of F flops and B bytes runs at min(P, b·F/B) flop/s at most, with P the machine's peak of products and
b its triad's bandwidth, both measured in the same call. F and B are the model's (docs/figures_of_merit.md);
beside them stands what the memory controllers counted, where the bench could read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.speed.bench_json import Call, Times, read_json


@dataclass(frozen=True)
class Roof:
    """One call of the bench: its two ceilings and the cases that have flops or bytes."""

    call: Call
    flops: float  # a second
    bytes: float  # a second
    cases: dict[str, Times]

    @property
    def ridge(self) -> float:
        """Flops a byte at which both ceilings meet."""
        return self.flops / self.bytes


def seconds(case: Times) -> float:
    return float(np.median(case.wall))


def read(path: Path) -> Roof:
    call = read_json(path)
    flops, bandwidth = call.number("peak_flops"), call.number("peak_bytes")
    if not (flops > 0 and bandwidth > 0):
        raise InputError("has no peaks", f"{path}: context", "peak_flops and peak_bytes above 0")
    cases = {
        name: case
        for name, case in call.cases.items()
        if not case.failure and case.bound != "network" and case.flops > 0 and case.bytes > 0
    }
    if not cases:
        raise InputError(
            "holds no valid case that has flops and bytes", path, "what `taugrid bench --json` writes"
        )
    return Roof(call, flops, bandwidth, cases)


def table(roof: Roof) -> Table:
    result = Table(
        "roofline",
        f"Roofline: {roof.flops / 1e9:.1f} Gflop/s of products, {roof.bytes / 1e9:.1f} GB/s of triad",
        [
            Column("case"),
            Column("flop/byte", 3, significant=True),
            Column("Gflop/s", 3, significant=True),
            Column("of products", 1, percent=True),
            Column("GB/s", 3, significant=True),
            Column("of triad", 1, percent=True),
            Column("bound"),
            Column("traffic", 2),
        ],
        notes=[
            f"cases of fewer than {roof.ridge:.1f} flop/byte are bound by memory, by the model.",
            "traffic: what the memory controllers counted, over the bytes of the model.",
        ],
    )
    for name, case in roof.cases.items():
        rate, bandwidth = case.flops / seconds(case), case.bytes / seconds(case)
        traffic = case.memory_bytes / case.bytes
        row: list[Value] = [name, case.flops / case.bytes, rate / 1e9, case.share_of_products]
        row += [bandwidth / 1e9, case.share_of_triad, case.bound, None if np.isnan(traffic) else traffic]
        result.rows.append(row)
    return result
