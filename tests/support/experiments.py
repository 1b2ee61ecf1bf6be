# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The experiment files that this repository ships, as the program reads them."""

import tomllib
from pathlib import Path
from typing import Any

JOBS = Path(__file__).parents[2] / "jobs"
COMMON = sorted((JOBS / "experiments" / "common").glob("*.toml"))  # what others extend
SHIPPED = sorted(path for folder in ("experiments", "papers") for path in (JOBS / folder).rglob("*.toml")
                 if path.name != "paper.toml" and path not in COMMON)
ORIGINAL = [path for path in SHIPPED if path.parent.name == "original"]  # the papers' own settings


def name(path: Path) -> str:
    return str(path.relative_to(JOBS).with_suffix(""))


def read(path: Path) -> dict[str, Any]:
    """What the file says, and what the files that it extends say beside it; paths are as each file has them."""
    table = tomllib.loads(path.read_text("utf-8"))
    table.pop("extends", None)
    extended = base_of(path)
    return over(table, read(extended)) if extended else table


def base_of(path: Path) -> Path | None:
    """The file that this one extends."""
    said = tomllib.loads(path.read_text("utf-8")).get("extends")
    return None if said is None else (path.parent / said).resolve()


def over(table: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    both = table.keys() & base.keys()
    merged = {key: over(table[key], base[key]) for key in both if isinstance(table[key], dict)}
    return base | table | merged
