# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Real repetitions of the bench on a busy machine, and files of `taugrid bench --json` made from them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from taugrid_analysis.speed.bench_json import Call, Times
from taugrid_analysis.speed.samples import Side

PATH = Path(__file__).parent / "recorded" / "bench_noise.json"
CASES = ("forward", "step/standard")
QUIET = 0  # the call whose repetitions agree best


@cache
def calls() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))["calls"]
    return found


def sample(number: int, case: str, clock: str = "wall") -> np.ndarray:
    """Seconds of one call's repetitions, in order."""
    return np.array(calls()[number]["cases"][case][f"{clock}_ms"]) / 1e3


def side(case: str, parts: Iterable[tuple[int, Any]], factor: float = 1.0) -> Side:
    """Repetitions picked from calls, as one side of a comparison."""
    found = []
    for number, picked in parts:
        context = {"ranks": "1"} | {key: str(value) for key, value in calls()[number]["context"].items()}
        wall, cpu = (factor * sample(number, case, clock)[picked] for clock in ("wall", "cpu"))
        found.append(Call(Path("recorded"), context, {case: Times(wall, cpu)}))
    return Side(Path("recorded"), found)


def write(
    path: Path,
    number: int = QUIET,
    picked: slice = slice(None),
    *,
    factor: float = 1.0,
    invalid: Iterable[str] = (),
    cases: Iterable[str] = CASES,
    **context: str,
) -> Path:
    """A file as the bench writes it; `invalid` cases computed something wrong."""
    rows: list[dict[str, Any]] = []
    for name in cases:
        case = calls()[number]["cases"][name]
        pairs = list(zip(case["wall_ms"][picked], case["cpu_ms"][picked], strict=True))

        def row(wall: float, cpu: float, name: str = name, items: float = case["items"]) -> dict[str, Any]:
            rate = {"items_per_second": items / wall * 1e3}
            return {"run_name": name, "real_time": wall, "cpu_time": cpu, "time_unit": "ms"} | rate

        rows += [row(factor * a, factor * b) | {"name": name, "run_type": "iteration"} for a, b in pairs]
        middle = row(*(factor * float(np.median(values)) for values in zip(*pairs, strict=True)))
        gate = {"valid": name not in invalid, "relative_error": 0.5 if name in invalid else 1e-7}
        share = case["median"]["share_of_peak"] / factor
        rows.append(
            middle
            | {"name": f"{name}_median", "run_type": "aggregate", "aggregate_name": "median"}
            | case["median"]
            | {"share_of_peak": share}
            | gate
        )
    head = calls()[number]["context"] | context
    path.write_text(json.dumps({"context": head, "benchmarks": rows}), encoding="utf-8")
    return path
