# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' printed numbers, and whether a run measured the same thing."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from taugrid_analysis.results import Results

PAPERS = ("tangent_space", "tau_jp", "attention_only")


@dataclass(frozen=True)
class Row:
    label: str
    regime: str
    values: dict[str, list[float]]  # model key: one number a column, as printed


@dataclass(frozen=True)
class PublishedTable:
    paper: str
    title: str
    text: str  # name of the paper's plain text, for the check against it
    number: int
    caption: str
    measure: str
    init: str
    columns: list[str]
    rows: list[Row]


@dataclass(frozen=True)
class Identity:
    """Which of the papers' models this run's model is; `key` is None where it is none of them."""

    key: str | None
    title: str
    reason: str


def _read(name: str) -> dict[str, Any]:
    path = resources.files("taugrid_analysis") / "published" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def tables() -> list[PublishedTable]:
    found = []
    for name in PAPERS:
        paper = _read(name)
        for entry in paper["table"]:
            rows = [Row(row["label"], row["regime"], row["values"]) for row in entry["row"]]
            found.append(
                PublishedTable(
                    paper=paper["short"],
                    title=paper["title"],
                    text=paper["text"],
                    number=entry["number"],
                    caption=entry["caption"],
                    measure=entry["measure"],
                    init=entry["init"],
                    columns=entry["columns"],
                    rows=rows,
                )
            )
    return found


def models() -> dict[str, str]:
    """key: title, in the papers' order."""
    return {key: entry["title"] for key, entry in _read("models")["model"].items()}


def identify(results: Results) -> Identity:
    """The same model (name and size) and the same eight tasks, or the reason why not."""
    known = _read("models")
    model = results.model()
    if model is None:
        return Identity(None, "", "the file does not say which model it measured")
    for key, entry in known["model"].items():
        if model.name.lower() not in entry["names"]:
            continue
        if model.parameters != entry["parameters"]:
            return Identity(
                None,
                entry["title"],
                f"the model is called {model.name} but has {model.parameters:,} parameters,"
                f" the papers' has {entry['parameters']:,}",
            )
        wanted, found = set(known["tasks"]), {task.lower() for task in results.tasks}
        if wanted != found:
            return Identity(None, entry["title"], "the model is the papers', the tasks are not their eight")
        return Identity(key, entry["title"], "")
    return Identity(None, "", f"the model, {model.name}, is none of the papers'")


def cells(measure: str, init: str, column: str, regime: str, key: str) -> list[tuple[str, float]]:
    """(paper, number) of every paper that prints this cell."""
    found = []
    for table in tables():
        if table.measure != measure or table.init != init or column not in table.columns:
            continue
        position = table.columns.index(column)
        for row in table.rows:
            numbers = row.values.get(key, [])
            if row.regime == regime and position < len(numbers):
                found.append((f"{table.paper} T{table.number}", numbers[position]))
    return found


def verdict(percent: float, printed: list[float]) -> str:
    """Where a number lies against what the papers print: they differ among themselves by up to 3 points."""
    low, high = min(printed), max(printed)
    if round(percent, 1) > high:
        return f"{percent - high:.1f} above"
    if round(percent, 1) < low:
        return f"{low - percent:.1f} below"
    return "inside"
