# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The TOML file of expected speeds: a system's patterns, and a reference a case and number of ranks.

[system.NAME]
host = "node*"          # shell patterns; all that stand here must match the measurement's context
processor = "*Xeon*"
device = "cpu"          # or "*H100*"
threads = "1"

[[system.NAME.reference]]
case = "step/standard"
ranks = 1
quantity = "seconds"    # or throughput (items/s), share_of_peak
time = "wall"           # or cpu: of all threads
value = 0.108
slower = 0.10           # tolerated parts of the value, to the bad side
faster = 0.25           # … and to the good one
bound = 0.054           # nobody is that fast: a broken measurement
"""

from __future__ import annotations

import difflib
import fnmatch
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import regular
from taugrid_analysis.speed.samples import CLOCKS, Side

PATTERNS = {
    "host": "host_name",
    "processor": "processor",
    "device": "device",
    "cores": "num_cpus",
    "threads": "threads",
}
QUANTITIES = ("seconds", "throughput", "share_of_peak")
KEYS = ("case", "ranks", "quantity", "time", "value", "slower", "faster", "bound", "measured")
ENDLESS = 1e300
TOLERANCES = ("slower", "faster")  # 0 is one
REQUIRED = ("case", "ranks", "quantity", "value", "slower", "faster")


@dataclass(frozen=True)
class Reference:
    case: str
    ranks: int
    quantity: str
    value: float
    slower: float
    faster: float
    bound: float | None = None
    time: str = CLOCKS[0]
    measured: str = ""

    @property
    def sign(self) -> int:
        """1 where more is better."""
        return -1 if self.quantity == "seconds" else 1

    @property
    def worst(self) -> float:
        return self.value * (1 - self.sign * self.slower)

    @property
    def best(self) -> float:
        return self.value * (1 + self.sign * self.faster)


@dataclass(frozen=True)
class System:
    name: str
    patterns: dict[str, str]
    references: list[Reference]

    def matches(self, side: Side) -> bool:
        return all(
            fnmatch.fnmatchcase(side.about(PATTERNS[key]).lower(), pattern.lower())
            for key, pattern in self.patterns.items()
        )


def read(path: Path) -> list[System]:
    try:
        parsed = tomllib.loads(regular(path, "a file of references").read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", path, "a file of references") from error
    except ValueError as error:  # of TOML, of UTF-8
        raise InputError(f"is no TOML ({error})", path, "a file of references") from error
    _known(path, parsed, ("system",))
    systems = parsed.get("system")
    if not isinstance(systems, dict) or not all(isinstance(table, dict) for table in systems.values()):
        raise InputError("holds no system", path, "[system.NAME] with its references")
    return [_system(f"{path}: [system.{name}]", name, table) for name, table in systems.items()]


def _known(where: object, keys: Iterable[str], known: Iterable[str]) -> None:
    known = tuple(known)
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1, 0.0)
            raise InputError(f"unknown key {key}", where, f"{near[0]}, the nearest of {', '.join(known)}")


def _system(where: str, name: str, table: dict[str, Any]) -> System:
    _known(where, table, (*PATTERNS, "reference"))
    patterns = {key: value for key, value in table.items() if key != "reference"}
    for key, value in patterns.items():
        if not isinstance(value, str):
            raise InputError(f"{key} is {value}", where, "a shell pattern in quotes")
    entries = table.get("reference", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError("reference is no list", where, f"[[system.{name}.reference]]")
    references = [_reference(f"{where} reference {index}", e) for index, e in enumerate(entries, 1)]
    seen = set()
    for reference in references:
        if (reference.case, reference.ranks) in seen:
            raise InputError(
                f"{reference.case} at {reference.ranks} ranks stands twice", where, "one reference for each"
            )
        seen.add((reference.case, reference.ranks))
    return System(name, patterns, references)


def _reference(where: str, entry: dict[str, Any]) -> Reference:
    _known(where, entry, KEYS)
    for key in REQUIRED:
        if key not in entry:
            raise InputError(f"lacks {key}", where, ", ".join(REQUIRED))
    where = f"{where} ({entry['case']})"
    for key in ("case", "quantity", "time", "measured"):
        if not isinstance(entry.get(key, ""), str):
            raise InputError(f"{key} is {entry[key]}", where, "text in quotes")
    if entry["quantity"] not in QUANTITIES:
        raise InputError(f"quantity is {entry['quantity']}", where, ", ".join(QUANTITIES))
    if entry.get("time", CLOCKS[0]) not in CLOCKS:
        raise InputError(f"time is {entry['time']}", where, " or ".join(CLOCKS))
    if type(entry["ranks"]) is not int or entry["ranks"] < 1:
        raise InputError(f"ranks is {entry['ranks']}", where, "a whole number, 1 or more")
    for key in ("value", "slower", "faster", "bound"):
        value = entry.get(key, 1.0)
        if type(value) not in (int, float):
            raise InputError(f"{key} is {value}", where, "a number")
        least = value >= 0 if key in TOLERANCES else value > 0
        if not least or not value < ENDLESS:
            raise InputError(f"{key} is {value}", where, "a number above 0")
    reference = Reference(**entry)
    if min(reference.worst, reference.best) <= 0:
        raise InputError("tolerates a value of 0", where, "parts of the value below 1")
    if reference.bound is not None and reference.sign * (reference.bound - reference.best) < 0:
        raise InputError(
            f"bound is {reference.bound:g}, within what is tolerated",
            where,
            f"a bound beyond {reference.best:g}",
        )
    return reference


def choose(systems: list[System], side: Side, name: str | None) -> System | None:
    """The named one, or the first whose patterns match."""
    if name is None:
        return next((system for system in systems if system.matches(side)), None)
    return next((system for system in systems if system.name == name), None)
