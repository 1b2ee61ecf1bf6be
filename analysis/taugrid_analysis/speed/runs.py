# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A finished run as times: its wall time, the seconds of its units, and what it computed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.run.configuration import configuration
from taugrid_analysis.run.model import Unit
from taugrid_analysis.run.results import Results
from taugrid_analysis.speed.bench_json import Call, Times

RENAMED = {  # keys of the bench's context, from /provenance
    "libtorch": "libtorch",
    "instructions": "cpu_capability",
    "kokkos": "kokkos",
    "build": "build_type",
}


@dataclass(frozen=True)
class Run:
    path: Path
    ranks: int
    width: int  # ranks a unit
    hosts: list[str]
    wall: float  # seconds from the first start to results.h5, pauses included
    flops: float  # of all units, by the model; 0 where the file does not say
    units: list[Unit]
    work: dict[str, str]  # what is computed, as results.h5 says it
    config: dict[str, str]  # section.key of the config.toml beside it; empty without one
    context: dict[str, str]

    def by_rank(self) -> list[float]:
        """Seconds of units on each group of ranks; 0 for one that got none."""
        sums = dict.fromkeys(range(0, self.ranks - self.width + 1, self.width), 0.0)
        for unit in self.units:
            sums[unit.rank] = sums.get(unit.rank, 0.0) + unit.seconds
        return list(sums.values())

    @property
    def longest(self) -> float:
        return max(self.by_rank())

    @property
    def rank_seconds(self) -> float:
        return self.width * sum(unit.seconds for unit in self.units)

    def as_call(self) -> Call:
        """`run`: the wall time; `units/KIND`: seconds of all ranks' units of that kind, free of pauses."""
        cases = {"run": _one(self.wall)}
        for kind in dict.fromkeys(unit.kind for unit in self.units):
            seconds = sum(unit.seconds for unit in self.units if unit.kind == kind)
            cases[f"units/{kind}"] = _one(self.width * seconds)
        return Call(self.path, self.context, cases)


def _one(seconds: float) -> Times:
    return Times(wall=np.array([seconds]), cpu=None)


def read_run(path: Path) -> Run:
    with Results(path) as results:
        facts, units, model = results.provenance(), results.units(), results.model()
        for name in ("ranks", "ranks_per_unit", "threads_per_rank", "seed"):
            if not facts.get(name, "1").isdecimal():
                raise InputError(f"{name} is {facts[name]}", f"{results.path}:/provenance", "a whole number")
        if "ranks" not in facts or not units:
            raise InputError("lacks /units or /provenance's ranks", results.path, "a run of this version")
        begin, end = (_moment(results, name) for name in ("started_utc", "finished_utc"))
        seconds = (end - begin).total_seconds()
        if seconds < 0:
            raise InputError("finished before it started", results.path, "started_utc before finished_utc")
        hosts = list(dict.fromkeys(results.hosts()))
        work = {
            "model": model.fingerprint if model is not None else "",
            "tasks": ", ".join(results.tasks),
            "seed": facts.get("seed", ""),
            "threads": facts.get("threads_per_rank", ""),
            "units": "\n".join(sorted(unit.key for unit in units)),
        }
        context = {
            "date": end.isoformat(),
            "taugrid": f"{results.root('taugrid_version')} ({results.root('git_revision')})",
            "ranks": facts["ranks"],
            "threads": facts.get("threads_per_rank", "unknown"),
            "host_name": " ".join(hosts) or "unknown",
            "device": ", ".join(sorted({re.sub(r":\d+", "", unit.device) for unit in units})),
        }
        context |= {key: facts[name] for key, name in RENAMED.items() if name in facts}
        return Run(
            path=path,
            ranks=int(facts["ranks"]),
            width=int(facts.get("ranks_per_unit", "1")),
            hosts=hosts,
            wall=max(seconds, 1.0),  # both times are whole seconds
            flops=_flops(results, facts),
            units=units,
            work=work,
            config=configuration(results.path.with_name("config.toml")),
            context=context,
        )


def _flops(results: Results, facts: dict[str, str]) -> float:
    try:
        flops = float(facts.get("model_flops", "0"))
    except ValueError:
        flops = -1.0
    if not 0 <= flops < math.inf:
        raise InputError(f"model_flops is {facts['model_flops']}", f"{results.path}:/provenance", "a number")
    return flops


def _moment(results: Results, name: str) -> datetime:
    try:
        return datetime.fromisoformat(results.root(name))
    except ValueError:
        raise InputError(f"{name} is {results.root(name)}", results.path, "2026-01-31T12:00:00Z") from None


def differences(first: Run, second: Run) -> list[str]:
    """Names of what the two did not share; a configuration that only one still has counts for nothing."""
    names = [key for key in first.work if first.work[key] != second.work[key]]
    if first.config and second.config:
        keys = sorted(set(first.config) | set(second.config))
        names += [key for key in keys if first.config.get(key) != second.config.get(key)]
    doubled = {"data.tasks": "tasks", "run.seed": "seed", "run.threads_per_rank": "threads"}
    return [key for key in names if doubled.get(key) not in names]
