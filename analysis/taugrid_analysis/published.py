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


Number = float | str  # a str where the paper prints no plain number: "17:38"


@dataclass(frozen=True)
class Row:
    label: str
    regime: str
    values: dict[str, list[Number]]  # model key: one a column, as printed; empty for a picture
    printed: str  # the label in the paper's text
    part: int | None  # which number of each cell, where the text holds several rows in a line


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
    setting: str  # what was measured, where it is not a CLIP ViT on the eight tasks
    picture: bool  # the text holds no numbers
    scan: bool  # the text may have lost decimal points
    where: str  # the caption in the text

    def as_printed(self, column: int, number: Number) -> str:
        """With the decimals of its column."""
        if isinstance(number, str):
            return number
        values = [
            numbers[column] for row in self.rows for numbers in row.values.values() if column < len(numbers)
        ]
        decimals = max(len(str(value).partition(".")[2]) for value in values)
        return f"{number:.{decimals}f}"


@dataclass(frozen=True)
class Identity:
    """Which of the papers' models this run's model is; `key` is None where it is none of them."""

    key: str | None
    title: str
    reason: str
    differs: str  # in two words


def _read(name: str) -> dict[str, Any]:
    path = resources.files("taugrid_analysis") / "published" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def tables(papers: tuple[str, ...] = PAPERS) -> list[PublishedTable]:
    found = []
    for name in papers:
        paper = _read(name)
        for entry in paper["table"]:
            rows = [
                Row(
                    row["label"],
                    row["regime"],
                    row.get("values", {}),
                    row.get("printed", row["label"]),
                    row.get("part"),
                )
                for row in entry["row"]
            ]
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
                    setting=entry.get("setting", ""),
                    picture=entry.get("picture", False),
                    scan=entry.get("scan", False),
                    where=entry.get("where", f"Table {entry['number']}:"),
                )
            )
    return found


def models() -> dict[str, str]:
    """key: title, in the papers' order."""
    return {key: entry["title"] for key, entry in _read("models")["model"].items()}


def title(key: str) -> str:
    """Of one of the papers' models, measured here or not."""
    known = _read("models")
    return str(known["model"][key]["title"] if key in known["model"] else known["other"][key])


def identify(results: Results) -> Identity:
    """The same model (name and size) and the same eight tasks, or the reason why not."""
    known = _read("models")
    model = results.model()
    if model is None:
        return Identity(None, "", "the file does not say which model it measured", "model unknown")
    for key, entry in known["model"].items():
        if model.name.lower() not in entry["names"]:
            continue
        if model.parameters != entry["parameters"]:
            return Identity(
                None,
                entry["title"],
                f"the model is called {model.name} but has {model.parameters:,} parameters,"
                f" the papers' has {entry['parameters']:,}",
                "other size",
            )
        wanted, found = set(known["tasks"]), {task.lower() for task in results.tasks}
        if wanted != found:
            reason = "the model is the papers', the tasks are not their eight"
            return Identity(None, entry["title"], reason, "other tasks")
        return Identity(key, entry["title"], "", "")
    wanted, found = set(known["tasks"]), {task.lower() for task in results.tasks}
    differs = "other model" if wanted == found else "other model, tasks"
    return Identity(None, "", f"the model, {model.name}, is none of the papers'", differs)


def cells(measure: str, init: str, column: str, regime: str, key: str) -> list[tuple[str, float]]:
    """(paper, number) of every paper that prints this cell; a paper that repeats a number counts once."""
    found: dict[tuple[str, float], str] = {}
    for table in tables():
        if table.measure != measure or table.init != init or column not in table.columns:
            continue
        position = table.columns.index(column)
        for row in table.rows:
            numbers = row.values.get(key, [])
            if row.regime != regime or position >= len(numbers):
                continue
            number = numbers[position]
            if isinstance(number, float):
                found.setdefault((table.paper, number), f"{table.paper} T{table.number}")
    return [(source, number) for (_, number), source in found.items()]


def verdict(percent: float, printed: list[float]) -> str:
    """Where a number lies against what the papers print: they differ among themselves by up to 3 points."""
    low, high = min(printed), max(printed)
    if round(percent, 1) > high:
        return f"{percent - high:.1f} above"
    if round(percent, 1) < low:
        return f"{low - percent:.1f} below"
    return "inside"
