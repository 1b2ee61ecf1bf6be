# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether two measurements come from one machine, and whether it was free."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.speed.bench_json import Call
from taugrid_analysis.speed.samples import Side

MACHINE = {  # key of the context: as it is printed
    "host_name": "host",
    "processor": "processor",
    "device": "device",
    "instructions": "instructions",
    "products": "products",
    "num_cpus": "cores",
    "threads": "threads",
    "ranks": "ranks",
    "libtorch": "libtorch",
    "kokkos": "kokkos",
    "build": "build",
}
PEAKS = {"peak_flops": ("matrix product", "Gflop/s"), "peak_bytes": ("triad", "GB/s")}
DRIFT = 1.1  # of a peak, on one machine: something else was running, which is said


def identity(call: Call) -> tuple[str, ...]:
    """Times with the same identity belong on one line of a plot."""
    return tuple(
        call.context.get(key, "unknown") for key in ("host_name", "processor", "device", "threads", "ranks")
    )


def notes(baseline: Side, current: Side) -> list[str]:
    different = [
        f"{name} {baseline.about(key)} → {current.about(key)}"
        for key, name in MACHINE.items()
        if baseline.about(key) != current.about(key)
    ]
    lines = []
    if different:
        lines.append(f"NOT THE SAME MACHINE OR BUILD, compared all the same: {'; '.join(different)}.")
    else:
        lines += [note for key in PEAKS if (note := _drift(key, baseline, current))]
    return lines + in_turn(baseline, current) + busy([baseline, current])


def in_turn(baseline: Side, current: Side) -> list[str]:
    """Calls of one side that all came before the other's meet another machine, if it drifts."""
    before, after = ([call.context["date"] for call in side.calls] for side in (baseline, current))
    if len(before) < 2 or len(after) < 2 or (max(before) > min(after) and max(after) > min(before)):
        return []
    return [
        "One side was measured after the other, not in turn: what the machine did in between counts as its."
    ]


def same(baseline: Side, current: Side) -> bool:
    return all(baseline.about(key) == current.about(key) for key in MACHINE)


def loss(baseline: Side, current: Side) -> float:
    """How many times slower the machine itself became, by the worse of its peaks; 1 where nothing says so."""
    if not same(baseline, current):
        return 1.0  # another libtorch moves the peak too
    peaks = [(_peak(baseline, key), _peak(current, key)) for key in PEAKS]
    return max([1.0, *(before / after for before, after in peaks if before > after > 0)])


def _peak(side: Side, key: str) -> float:
    """The best of the calls: what others took of the machine for a while is no part of it."""
    return max((peak for call in side.calls if (peak := call.number(key)) > 0), default=np.nan)


def is_busy(call: Call) -> bool:
    return call.number("load") >= call.number("num_cpus")  # false where either is unknown


def _drift(key: str, baseline: Side, current: Side) -> str:
    """The bench measures the peaks anew in each call: a machine that is free finds the same ones."""
    title, unit = PEAKS[key]
    values = [call.number(key) for side in (baseline, current) for call in side.calls]
    if not max(values) > DRIFT * min(values):
        return ""
    return (
        f"the machine's own {title} peak lay between {min(values) / 1e9:.4g} and {max(values) / 1e9:.4g}"
        f" {unit}: it was not always equally free. Measure both again, in turn, several calls a side."
    )


def busy(sides: list[Side]) -> list[str]:
    """A load of all cores before the bench began: wall times hold waiting."""
    return [
        f"{call.path}: the load was {call.context['load']} on {call.context['num_cpus']} cores;"
        " --time cpu leaves out most waiting."
        for call in (call for side in sides for call in side.calls)
        if is_busy(call)
    ]
