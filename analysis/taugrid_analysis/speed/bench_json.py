# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The JSON of `taugrid bench --json`: a raw row a repetition, and a median row with the correctness gate."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import regular, visible
from taugrid_analysis.numbers.arrays import Floats

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
WRITER = "what `taugrid bench --json` writes"


@dataclass(frozen=True)
class Times:
    """One case: seconds of each repetition."""

    wall: Floats
    cpu: Floats | None
    failure: str = ""  # why the bench marked it INVALID
    items: float = math.nan  # a repetition
    unit: str = ""
    share: float = math.nan  # of the machine's peak, by the median
    flops: float = math.nan  # additions and multiplications a repetition, by the model
    bytes: float = math.nan  # that a repetition must read and write, by the model
    memory_bytes: float = math.nan  # what the memory controllers counted a repetition
    share_of_products: float = math.nan  # of the peak, by flops
    share_of_triad: float = math.nan  # of the peak, by bytes
    bound: str = ""  # what the share is of: products, triad, or another computation


@dataclass(frozen=True)
class Call:
    """One start of the bench, or one run."""

    path: Path
    context: dict[str, str]
    cases: dict[str, Times]

    @property
    def ranks(self) -> int:
        return int(self.context["ranks"])

    @property
    def title(self) -> str:
        return f"{self.path} ({self.context.get('taugrid', 'unknown version')}, {self.context['date']})"

    def number(self, key: str) -> float:
        """NaN where the context does not say."""
        try:
            return float(self.context.get(key, "nan"))
        except ValueError:
            return math.nan


def read_json(path: Path) -> Call:
    try:
        parsed = json.loads(regular(path, WRITER).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", path, WRITER) from error
    except json.JSONDecodeError as error:
        raise InputError(f"is no JSON ({error.msg}, line {error.lineno})", path, WRITER) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise InputError("is no JSON", path, WRITER) from error
    if not isinstance(parsed, dict):
        raise InputError("is no JSON object", path, WRITER)
    context, rows = parsed.get("context"), parsed.get("benchmarks")
    if not isinstance(context, dict) or not isinstance(rows, list):
        raise InputError("lacks context or benchmarks", path, WRITER)
    if "date" not in context:
        raise InputError("lacks date", f"{path}: context", WRITER)
    missing = {"ranks": "1", "products": "BLAS"}  # in files of before each was written
    words = missing | {visible(str(key)): visible(str(value)) for key, value in context.items()}
    if not words["ranks"].isdecimal():
        raise InputError(f"ranks is {words['ranks']}", f"{path}: context", "a whole number")
    return Call(path, words, _cases(path, rows))


def _cases(path: Path, rows: list[Any]) -> dict[str, Times]:
    times: dict[str, list[tuple[float, float]]] = {}
    medians: dict[str, dict[str, Any]] = {}
    for index, row in enumerate(rows):
        where = f"{path}: benchmarks[{index}]"
        if not isinstance(row, dict) or not isinstance(row.get("run_name"), str):
            raise InputError("has no run_name", where, WRITER)
        name = visible(row["run_name"])
        where = f"{where} ({name})"
        if row.get("run_type") == "iteration":
            scale = SECONDS.get(str(row.get("time_unit")))
            if scale is None:
                raise InputError(f"time_unit is {row.get('time_unit')}", where, ", ".join(SECONDS))
            wall = scale * _number(row, "real_time", where)
            if wall == 0:
                raise InputError("real_time is 0", where, "a time above 0")
            times.setdefault(name, []).append((wall, scale * _number(row, "cpu_time", where)))
        elif row.get("aggregate_name") == "median":
            if name in medians:
                raise InputError("stands there twice", where, "one median row a case")
            if not isinstance(row.get("valid"), bool):
                raise InputError("does not say whether it is valid", where, WRITER)
            medians[name] = row
    alone = sorted(set(times) - set(medians))
    if alone:
        raise InputError(f"{alone[0]} has no median row", path, WRITER)
    return {name: _times(path, name, row, times.get(name, [])) for name, row in medians.items()}


def _times(path: Path, name: str, row: dict[str, Any], pairs: list[tuple[float, float]]) -> Times:
    failure = ""
    if not row["valid"]:
        error, limit = row.get("relative_error"), row.get("tolerance")
        failure = visible(str(row.get("error_message") or f"error {error} above {limit}"))
    elif not pairs:
        raise InputError(f"{name} is valid and has no repetition", path, WRITER)
    values = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    rate = row.get("items_per_second")
    known = bool(pairs) and isinstance(rate, int | float)
    return Times(
        wall=values[:, 0],
        cpu=values[:, 1],
        failure=failure,
        items=float(rate) * float(np.median(values[:, 0])) if known and rate is not None else math.nan,
        unit=visible(str(row.get("unit", ""))),
        share=_known(row, "share_of_peak"),
        flops=_known(row, "flops"),
        bytes=_known(row, "bytes"),
        memory_bytes=_known(row, "memory_bytes"),
        share_of_products=_known(row, "share_of_products"),
        share_of_triad=_known(row, "share_of_triad"),
        bound=visible(str(row.get("bound", ""))),
    )


def _known(row: dict[str, Any], key: str) -> float:
    """NaN where the file says null, or nothing."""
    value = row.get(key)
    return float(value) if isinstance(value, int | float) else math.nan


def _number(row: dict[str, Any], key: str, where: str) -> float:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
        raise InputError(f"{key} is {value}", where, "a time, 0 or more")
    return float(value)
