# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Real calls of the bench on busy machines, and files of `taugrid bench --json` made from them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from taugrid_analysis.speed.bench_json import Call, Times
from taugrid_analysis.speed.samples import Side

PATH = Path(__file__).parent / "recorded" / "bench_noise.json"  # three calls, sixty repetitions each
MANY = Path(__file__).parent / "recorded" / "bench_calls.json"  # of many calls a few repetitions
CASES = ("forward", "step/standard")
QUIET = 0  # the call whose repetitions agree best


@cache
def calls() -> list[dict[str, Any]]:
    measured: list[dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))["calls"]
    return measured


def sample(number: int, case: str, clock: str = "wall") -> np.ndarray:
    """Seconds of one call's repetitions, in order."""
    return np.array(calls()[number]["cases"][case][f"{clock}_ms"]) / 1e3


@cache
def many() -> list[Call]:
    """In the order in which they were measured."""
    parsed: dict[str, Any] = json.loads(MANY.read_text(encoding="utf-8"))
    measured = []
    for call in parsed["calls"]:
        context = {"ranks": "1"} | {key: str(value) for key, value in (parsed["context"] | call).items()}
        times = zip(call["wall_ms"], call["cpu_ms"], strict=True)
        cases = {
            name: Times(np.array(wall) / 1e3, np.array(cpu) / 1e3)
            for name, (wall, cpu) in zip(parsed["cases"], times, strict=True)
        }
        measured.append(Call(Path("recorded"), context, cases))
    return measured


def of_many(numbers: Iterable[int], factor: float = 1.0, machine: float = 1.0) -> Side:
    """These calls as one side: the program is `factor` times slower, the machine and its peaks `machine`."""
    scaled = []
    for number in numbers:
        call = many()[number]
        peaks = {key: str(call.number(key) / machine) for key in ("peak_flops", "peak_bytes")}
        scale = factor * machine
        cases = {
            name: Times(scale * t.wall, scale * t.cpu) for name, t in call.cases.items() if t.cpu is not None
        }
        scaled.append(Call(call.path, call.context | peaks, cases))
    return Side(Path("recorded"), scaled)


def side(case: str, parts: Iterable[tuple[int, Any]], factor: float = 1.0) -> Side:
    """Repetitions picked from calls, as one side of a comparison."""
    chosen = []
    for number, picked in parts:
        context = {"ranks": "1"} | {key: str(value) for key, value in calls()[number]["context"].items()}
        wall, cpu = (factor * sample(number, case, clock)[picked] for clock in ("wall", "cpu"))
        chosen.append(Call(Path("recorded"), context, {case: Times(wall, cpu)}))
    return Side(Path("recorded"), chosen)


def folder(path: Path, parts: Iterable[slice], **more: Any) -> Path:
    """A side of several calls, each some repetitions of the quiet one: real calls differ more."""
    path.mkdir()
    for number, picked in enumerate(parts):
        write(path / f"{number}.json", picked=picked, date=f"2026-01-0{number + 1}T12:00:00+00:00", **more)
    return path


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
