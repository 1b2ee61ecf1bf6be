# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' printed numbers, and whether a run measured the same thing."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from taugrid_analysis.numbers import sampling
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.papers import PRINTED
from taugrid_analysis.run.results import Results

Number = float | str  # a str where the paper prints no plain number: "17:38"


@dataclass(frozen=True)
class Row:
    label: str
    regime: str
    values: dict[str, list[Number]]  # model key: one a column, as printed; empty for a picture
    printed: str  # the label in the paper's text
    part: int | None  # which number of each cell, where the text holds several rows in a line
    merge_in: str = ""  # methods by our names, in tables of merged clusters
    merge_out: str = ""
    variant: str = ""  # the name under which a run may have merge_in in the setting of this row alone
    doubtful: tuple[str, ...] = ()  # columns whose number another place of the paper contradicts


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
    picture: bool  # the text holds no numbers: those here are read from the picture, or there are none
    scan: bool  # the text may have lost decimal points
    where: str  # the caption in the text
    above: bool = False  # the table stands above its caption
    across: bool = False  # to be shown with a line a column: it has more of these than rows
    doubt: str = ""  # what contradicts the doubtful cells
    note: str = ""
    unmeasured: str = ""  # what of it no experiment measures
    correlated: tuple[str, ...] = ()  # tasks that are scored by Spearman's correlation, times 100
    model_by: str = ""  # the files of the paper's code that say which model it is of, where its text does not

    def decimals(self, column: int) -> int:
        """The decimals of the numbers in this column."""
        values = [
            numbers[column] for row in self.rows for numbers in row.values.values() if column < len(numbers)
        ]
        return max(len(str(value).partition(".")[2]) for value in values)

    def as_printed(self, column: int, number: Number) -> str:
        """With the decimals of its column."""
        return number if isinstance(number, str) else f"{number:.{self.decimals(column)}f}"

    def error(self, row: Row, key: str, column: int) -> float:
        """Standard error of a printed accuracy in points, from the sizes of the papers' test splits, or NaN.

        The papers print means over the eight tasks: each task counts with the mean accuracy. A normalised
        accuracy is a ratio of two such means, taken as independent.
        """
        numbers, name = row.values.get(key, []), self.columns[column]
        number = numbers[column] if column < len(numbers) else None
        if not isinstance(number, float) or self.setting or name == "seconds":
            return float("nan")
        if not name.endswith("normalized"):
            return _mean_error(number, name.endswith("control"))
        added = name.replace("normalized", "absolute")
        if added not in self.columns:
            return float("nan")
        absolute = numbers[self.columns.index(added)]
        if not isinstance(absolute, float):
            return float("nan")
        single = 100 * absolute / number
        return 100 * sampling.of_ratio(absolute, single, _mean_error(absolute), _mean_error(single))


def _mean_error(percent: float, control: bool = False) -> float:
    points = _read("models")["test_points"]
    counts = [points["imagenet"]] if control else [points[task] for task in _read("models")["tasks"]]
    return 100 * float(sampling.of_mean(sampling.binomial(percent / 100, np.array(counts))))


def setting_of(results: Results) -> str:
    """The setting of tables that this run measures, beside those of CLIP's ViT with zero-shot heads."""
    model = results.model()
    if model is not None and model.architecture.startswith("ConvNext"):
        return CONVOLUTIONAL
    return CLOSED if results.names("heads") else ""


CONVOLUTIONAL, CLOSED = "a ConvNeXt", "a supervised ViT with trained heads"


@dataclass(frozen=True)
class Identity:
    """Which of the papers' models this run's model is; `key` is None where it is none of them."""

    key: str | None
    title: str
    reason: str
    differs: str  # in two words


@lru_cache
def _read(name: str) -> dict[str, Any]:
    folder = resources.files("taugrid_analysis.papers")
    path = folder / "models.toml" if name == "models" else folder / name / "published.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def tables(papers: tuple[str, ...] = PRINTED) -> list[PublishedTable]:
    printed_tables = []
    for name in papers:
        paper = _read(name)
        for entry in paper["table"]:
            rows = [
                Row(
                    row["label"],
                    row.get("regime", "standard"),
                    row.get("values", {}),
                    row.get("printed", row["label"]),
                    row.get("part"),
                    row.get("merge_in", ""),
                    row.get("merge_out", ""),
                    row.get("variant", ""),
                    tuple(row.get("doubtful", ())),
                )
                for row in entry["row"]
            ]
            printed_tables.append(
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
                    **{name: _frozen(entry[name]) for name in FURTHER if name in entry},
                )
            )
    return printed_tables


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


FURTHER = ("above", "across", "doubt", "note", "unmeasured", "model_by", "correlated")


@dataclass(frozen=True)
class Said:
    """What a paper says outside its tables; `printed`: a part of the text that says so, `measure`: ours."""

    place: str
    measure: str
    says: str
    printed: str


def said(paper: str) -> list[Said]:
    return [Said(**entry) for entry in _read(paper).get("said", [])]


def explained() -> dict[str, float]:
    """R² of the loss barrier on each of its causes, as the cross-task linearity paper prints them."""
    return {row["cause"]: row["r_squared"] for row in _read("cross_task_linearity")["explained"]}


def captions(paper: str) -> dict[str, str]:
    """ "Table N": what it shows; of one that stands in several parts, what the first shows."""
    by_table: dict[str, str] = {}
    for entry in _read(paper).get("table", []):
        by_table.setdefault(f"Table {entry['number']}", entry["caption"])
    return by_table


def heading(paper: str) -> str:
    """The paper's name in short, and its title."""
    document = _read(paper)
    return f"{document['short']}: {document['title']}"


def papers_tasks() -> set[str]:
    """The eight image tasks that the papers have in common."""
    return set(_read("models")["tasks"])


def models() -> dict[str, str]:
    """key: title, in the papers' order."""
    return {key: entry["title"] for key, entry in _read("models")["model"].items()}


def title(key: str) -> str:
    """The title of one of the papers' models, measured here or not."""
    known = _read("models")
    for group in ("model", "open_clip"):
        if key in known[group]:
            return str(known[group][key]["title"])
    return str(known["other"][key])


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
                f"the model is called {model.name} but has {model.parameters:,} parameters, the papers' has"
                f" {entry['parameters']:,}",
                "other size",
            )
        wanted, tasks = set(known["tasks"]), {task.lower() for task in results.tasks}
        if wanted != tasks:
            reason = "the model is the papers', the tasks are not their eight"
            return Identity(None, entry["title"], reason, "other tasks")
        return Identity(key, entry["title"], "", "")
    wanted, tasks = set(known["tasks"]), {task.lower() for task in results.tasks}
    differs = "other model" if wanted == tasks else "other model, tasks"
    return Identity(None, "", f"the model, {model.name}, is none of the papers'", differs)


def open_clip(results: Results) -> str | None:
    """Which of the bases paper's two named checkpoints this run's model is, by name and size."""
    model = results.model()
    if model is None:
        return None
    for key, entry in _read("models")["open_clip"].items():
        if model.name.lower() in entry["names"] and model.parameters == entry["parameters"]:
            return str(key)
    return None


@dataclass(frozen=True)
class Cell:
    """A number that a paper prints, in percent."""

    source: str
    number: float
    decimals: int
    error: float  # standard error in points, from the paper's test splits


def cells(measure: str, init: str, column: str, regime: str, key: str) -> list[Cell]:
    """The cells of every paper that prints this one; a paper that repeats a number counts once."""
    by_number: dict[tuple[str, float], Cell] = {}
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
                source = f"{table.paper} T{table.number}"
                error = table.error(row, key, position)
                by_number.setdefault(
                    (table.paper, number), Cell(source, number, table.decimals(position), error)
                )
    return list(by_number.values())


@dataclass(frozen=True)
class Verdict:
    """ours less the nearest printed number in points, 0 within their range; what both samples explain."""

    difference: float
    tolerance: float  # half a 95 % interval

    def __str__(self) -> str:
        if abs(self.difference) <= self.tolerance:
            return f"agrees within {self.tolerance:.1f}"
        side = "above" if self.difference > 0 else "below"
        return f"{side} by {abs(self.difference):.1f} (± {self.tolerance:.1f})"


def verdict(percent: Measured, printed: list[Cell]) -> Verdict | None:
    """Where a number lies against what the papers print, which differ among themselves by up to 3 points.

    Ours is rounded as each of theirs. None where it is not known on how many points ours was measured.
    """
    if not math.isfinite(percent.error):
        return None
    away = [round(float(percent), cell.decimals) - cell.number for cell in printed]
    nearest = int(np.argmin(np.abs(away)))
    inside = min(away) <= 0 <= max(away)
    error = math.hypot(percent.error, printed[nearest].error)
    difference = 0.0 if inside else round(away[nearest], printed[nearest].decimals)
    return Verdict(difference, sampling.NORMAL * error)
