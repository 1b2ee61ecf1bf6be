# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables of what machines measured: a TOML file with a `[[machine]]` each, and its table in a page of the docs."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
# First and last model numbers of AMD's families 25 and 26 by generation, as Linux has them in its
# arch/x86/kernel/cpu/amd.c.
ZEN = {25: {3: [(0x00, 0x0F), (0x20, 0x5F)], 4: [(0x10, 0x1F), (0x60, 0xAF)]},
       26: {5: [(0x00, 0x2F), (0x40, 0x4F), (0x60, 0x7F)]}}


def processor() -> str:
    """The model's name; of AMD's the generation besides, since virtual machines often name no model."""
    facts: dict[str, str] = {}
    for line in CPUINFO.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    named = facts.get("model name", os.uname().machine)
    if facts.get("vendor_id") != "AuthenticAMD":
        return named
    family, model = int(facts["cpu family"]), int(facts["model"])
    for generation, ranges in ZEN.get(family, {}).items():
        if any(first <= model <= last for first, last in ranges):
            return f"{named} of Zen {generation}"
    return named


def markdown(rows: list[list[str]]) -> str:
    """An empty cell is one space wide."""
    return "".join("| " + " | ".join(row) + " |\n" for row in rows).replace("|  |", "| |").replace("|  |", "| |")


def identity(entry: str) -> dict[str, object]:
    """Which machine an entry is of, with how many cores or threads, on which day."""
    (machine,) = tomllib.loads(entry)["machine"]
    return {name: machine.get(name) for name in ("processor", "cores", "threads", "date")}


@dataclass(frozen=True)
class MachineTable:
    """`tool`: the name of the script whose table it is, between whose marks the page has it."""

    recorded: Path
    page: Path
    tool: str

    def begin(self) -> str:
        return f"<!-- {self.tool} table -->\n"

    def text(self) -> str:
        return self.recorded.read_text(encoding="utf-8")

    def page_with(self, rows: str) -> str:
        before, rest = self.page.read_text(encoding="utf-8").split(self.begin())
        return before + self.begin() + rows + rest[rest.index("<!-- end -->\n"):]

    def add(self, entry: str) -> None:
        """In the place of what the same machine measured on the same day, or behind all others."""
        before, *entries = re.split(r"^(?=\[\[machine\]\]$)", self.text(), flags=re.MULTILINE)
        others = [other.rstrip("\n") + "\n" for other in entries if identity(other) != identity(entry)]
        self.recorded.write_text(before + "\n".join([*others, entry]), encoding="utf-8")

    def renew(self, rows: str) -> None:
        self.page.write_text(self.page_with(rows), encoding="utf-8")
