# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The table of docs/speed.md, by machine: docs/peers.toml. `bash jobs/bench_peers.sh --record` adds this machine, and
`.venv/bin/python jobs/peers/compare.py --table` renews the page after the file was changed by hand."""

from __future__ import annotations

import ast
import statistics
import sys
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from machine_table import MachineTable, markdown, processor  # noqa: E402

DOCS = HERE.parents[1] / "docs"
TABLE = MachineTable(DOCS / "peers.toml", DOCS / "speed.md", "bench_peers.sh")


@dataclass
class Row:
    """What was measured, a number a round, and its goal: at least, or at most, so much."""

    case: str
    beside: str  # a peer's script, another case, or what the numbers are shares of
    values: list[float]
    at_least: float | None = None
    at_most: float | None = None
    different: bool = False  # from the peer's numbers

    def name(self) -> str:
        return f"{self.case} beside {self.beside}"

    def median(self) -> float:
        return statistics.median(self.values)

    def met(self) -> bool:
        low = self.at_least is None or self.median() >= self.at_least
        return low and (self.at_most is None or self.median() <= self.at_most) and not self.different

    def goal(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:.3g}"
        return "" if self.at_most is None else f"<= {self.at_most:.3g}"


def number(value: float) -> str:
    if value >= 9.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 1.95 else f"{value:.3g}" if value >= 0.995 else f"{value:.2g}"


def cell(numbers: list[float] | None) -> str:
    """The median, and the least and the most where they are known and other numbers."""
    if numbers is None:
        return ""
    middle, least, most = (number(x) for x in (numbers[0], min(numbers), max(numbers)))
    return middle if least == most else f"{middle} ({least} to {most})"


def meaning(beside: str) -> str:
    """What the peer's script says that it is, and whose memory or time is meant; anything else means itself."""
    name, _, more = beside.partition(" (")
    script = HERE / f"{name}.py"
    if not script.exists():
        return beside
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    first = " ".join(text.split("\n\n")[0].split()).rstrip(".")
    return f"{first} ({more}" if more in ("memory)", "time)") else first


def head(machine: dict[str, Any]) -> str:
    """Whose column it is: numbers of other days and revisions stand beside it."""
    words = [machine["processor"], f"{machine['date']:%-d %B %Y}", machine["revision"]]
    if "rounds" in machine:
        words.append(f"{machine['rounds']} rounds")
    if machine["threads"] > 1:
        words.append(f"{machine['threads']} threads")
    return ", ".join(words)


def table(recorded: str, goals: dict[str, str]) -> str:
    """A column a machine, a row a comparison in the order of `goals`, which are by the row's name; then what is to be
    known of a machine."""
    machines: list[dict[str, Any]] = tomllib.loads(recorded)["machine"]
    measured = {name for m in machines for name in m["ratios"]}
    rows = [["case", "beside", "goal", *map(head, machines)], ["---", "---", "---", *("---:" for _ in machines)]]
    for name in [*(name for name in goals if name in measured), *sorted(measured - goals.keys())]:
        case, beside = name.split(" beside ")
        cells = (cell(m["ratios"].get(name)) for m in machines)
        rows.append([f"`{case}`", meaning(beside), goals.get(name, ""), *cells])
    notes = "".join(f"- {m['processor']}: {m['note']}\n" for m in machines if "note" in m)
    return markdown(rows) + ("\n" + notes if notes else "")


def entry(rows: list[Row], revision: str, instructions: str, peak: float, threads: int) -> str:
    def listed(values: list[float]) -> str:
        return "[" + ", ".join(f"{x:.4g}" for x in (statistics.median(values), min(values), max(values))) + "]"

    ratios = "".join(f'"{row.name()}" = {listed(row.values)}\n' for row in rows)
    return (f'[[machine]]\nprocessor = "{processor()}, {instructions}"\nthreads = {threads}\n'
            f"rounds = {max(len(row.values) for row in rows)}\ndate = {datetime.now(UTC).date()}\n"
            f'revision = "{revision}"\nnote = "its peak of products was {peak / 1e9:.0f} Gflop/s"\n'
            f"[machine.ratios]\n{ratios}")


def renew(goals: dict[str, str]) -> None:
    TABLE.renew(table(TABLE.text(), goals))


def record(rows: list[Row], context: dict[str, Any], threads: int, goals: dict[str, str]) -> None:
    """Adds what this machine measured. `context`: that of the JSON of taugrid bench."""
    revision = context["taugrid"].rpartition("(")[2].rstrip(")")
    TABLE.add(entry(rows, revision, context["instructions"], context["peak_flops"], threads))
    renew(goals)
