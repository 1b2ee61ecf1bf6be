# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The bases paper's tables as it lays them out, this run's numbers in columns beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from taugrid_analysis.numbers import measured
from taugrid_analysis.numbers.measured import Measured, percent
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.papers import BASES, published
from taugrid_analysis.papers.bases import language, negation, sentences
from taugrid_analysis.papers.published import PublishedTable, Row, open_clip
from taugrid_analysis.quantities.bases import partitions
from taugrid_analysis.quantities.bases.partitions import FOUR, Partition
from taugrid_analysis.quantities.mixed_starts.tables import KINDS
from taugrid_analysis.run import accuracies
from taugrid_analysis.run.opened import Run

OUTSIDE = ("gtsrb", "dtd")  # the tasks that are held out of the paper's partitions of four
REGIME = "standard"  # the paper fine-tunes so
DOUBTFUL = " ?"  # follows a number that another place of the paper contradicts
OTHERS = (
    "Ours are of this run's own tasks and model, without difference: MSER is all of them in one cluster,"
    " M-S-E-R each alone, MS-ER the spectral clusters whose number the largest gap chose; means are over the"
    " partitions that were measured, spectral and random."
)


@dataclass
class Sheet:
    """Lines and columns as they are printed. A group of published columns has one of ours after it."""

    lines: list[str]
    heads: list[tuple[str, str]]  # a published column and its group
    published: dict[tuple[int, int], str] = field(default_factory=dict)
    ours: dict[tuple[int, str], Value] = field(default_factory=dict)
    difference: dict[tuple[int, str], Value] = field(default_factory=dict)

    def table(self, name: str, title: str, first: str, decimals: int) -> Table:
        """Columns of ours and of differences where there is a number in them."""
        table = Table(name, title, [Column(first)])
        rows: list[list[Value]] = [[line] for line in self.lines]

        def add(column: Column, held: Callable[[int], Value]) -> None:
            table.columns.append(column)
            for line, row in enumerate(rows):
                row.append(held(line))

        for group in dict.fromkeys(group for _, group in self.heads):
            for place, (head, head_group) in enumerate(self.heads):
                if head_group == group:
                    add(Column(head), lambda line, place=place: self.published.get((line, place)))  # type: ignore[misc]
            for ending, values in (("ours", self.ours), ("difference", self.difference)):
                if any(key[1] == group for key in values):
                    add(
                        Column(f"{group}, {ending}", decimals),
                        lambda line, values=values, group=group: values.get((line, group)),  # type: ignore[misc]
                    )
        table.rows = rows
        return table


def tables(run: Run) -> list[Table]:
    """Every table of the paper, then what else it says; a last note names what no experiment measures."""
    sources = published.tables((BASES,))
    paper_tables = [_table(run, source) for source in sources]
    said = sentences.said(run)
    unmeasured = [source.unmeasured for source in sources if source.unmeasured]
    if unmeasured:
        said.notes.append(f"No experiment measures yet: {'; '.join(unmeasured)}.")
    return [*paper_tables, said]


FIRST = {"mixing": "vectors", "loss_gap": "task", "norms": "task", "language_cosine": "pair"}


def _table(run: Run, source: PublishedTable) -> Table:
    keys = list(dict.fromkeys(key for row in source.rows for key in row.values))
    sheet = _across(source, keys) if source.across else _as_printed(source, keys)
    for row in source.rows:
        for key, values in row.values.items():
            for position, value in enumerate(values):
                name = source.columns[position]
                label = named(row.label, key, keys) if source.across else row.label
                line = position if source.across else sheet.lines.index(label)
                head = (label, row.label) if source.across else (named(name, key, keys), name)
                sheet.published[line, sheet.heads.index(head)] = as_shown(source, row, key, position)
                ours = MEASURES[source.measure](run, row, name) if source.measure in MEASURES else None
                if ours is None or (not isinstance(ours, str) and not math.isfinite(ours)):
                    continue
                sheet.ours[line, head[1]] = ours
                if isinstance(ours, str):  # a count, as "14/15"
                    continue
                if key == open_clip(run.results) and isinstance(value, float) and _of_its_tasks(run, source):
                    sheet.difference[line, head[1]] = float(ours) - value
    if source.measure in ("norms", "loss_gap"):
        _own_tasks(run, sheet, source)
    if source.across:
        first = "partition" if source.measure == "partitions" else "quantity"
    else:
        first = FIRST.get(source.measure, "method")
    title = f"{source.paper} paper, Table {source.number}. {source.caption}"
    decimals = 4 if source.measure == "language_cosine" else 2
    table = sheet.table(f"table{source.number}", title, first, decimals)
    table.notes += _notes(run, source, sheet, keys)
    return table


def as_shown(source: PublishedTable, row: Row, key: str, position: int) -> str:
    """A published cell with the decimals of its column; a doubtful one is marked."""
    doubtful = DOUBTFUL if source.columns[position] in row.doubtful else ""
    return source.as_printed(position, row.values[key][position]) + doubtful


def named(name: str, key: str, keys: list[str]) -> str:
    """With its model where the table has several."""
    return f"{name}, {published.title(key)}" if len(keys) > 1 else name


def _across(source: PublishedTable, keys: list[str]) -> Sheet:
    """A line a column of the paper's; a column each of its rows, ours after those of one label."""
    heads = [(named(row.label, key, keys), row.label) for row in source.rows for key in row.values]
    return Sheet(list(source.columns), heads)


def _as_printed(source: PublishedTable, keys: list[str]) -> Sheet:
    """A line a row; where it stands for several models, a column each and ours after them."""
    heads = [(named(name, key, keys), name) for name in source.columns for key in keys]
    return Sheet(list(dict.fromkeys(row.label for row in source.rows)), heads)


def _notes(run: Run, source: PublishedTable, sheet: Sheet, keys: list[str]) -> list[str]:
    notes = []
    if keys == ["unsaid"]:
        notes.append("Of which CLIP the published numbers are is not said.")
    elif keys == ["three"]:
        notes.append("Published are means over three architectures; ours are of this run's one.")
    elif source.model_by:
        notes.append(
            f"Published for {published.title(keys[0])}, as the paper's code says ({source.model_by}) and its"
            " text does not."
        )
    elif len(keys) == 1 and not source.setting:
        notes.append(f"Published for {published.title(keys[0])}; of which checkpoint is not said.")
    if source.setting and sheet.ours:
        notes.append(language.said(run, source))
    elif source.setting:
        notes.append(f"Published for {source.setting}: this run is not of that.")
    if source.doubt:
        notes.append(f"?: doubtful, {source.doubt}.")
    if source.note:
        notes.append(source.note)
    if not sheet.ours:
        return notes
    if source.measure == "loss_gap":
        notes.append(_said_of_gaps(run))
    if source.measure == "partitions":
        notes.append(_said_of_partitions(run, bool(sheet.difference)))
    elif source.measure.startswith("held_out"):
        notes.append(_said_of_held_out(run))
    elif source.measure == "basis_negation":
        notes.append(negation.said(run))
    elif not sheet.difference and not source.setting:
        notes.append("Ours are of another model, or of one that the paper does not name: no difference.")
    return notes


def _stand_ins(run: Run, group: str = "every_partition") -> list[str]:
    """Which of this run's tasks stand for the paper's four, in the order of its letters; or none."""
    for name in run.results.by_method(group):
        data = run.data(group, name)
        if data is not None and data.sizes["member"] == len(FOUR):
            return [run.results.tasks[int(task)] for task in data["member"].to_numpy()]
    return []


def _letters(run: Run) -> str:
    return ", ".join(f"{letter} {task}" for letter, task in zip(FOUR, _stand_ins(run), strict=False))


def _of_its_tasks(run: Run, source: PublishedTable) -> bool:
    """Whether ours are of the paper's own tasks, so that a difference is one of numbers of the same thing."""
    tasks = {task.lower() for task in run.results.tasks}
    if source.measure in ("norms", "loss_gap"):  # a line a task, by its name
        return True
    if source.measure == "mixing":
        return tasks == published.papers_tasks()
    group = "partition_negation" if source.measure == "basis_negation" else "every_partition"
    stand_ins = [task.lower() for task in _stand_ins(run, group)]
    if stand_ins != list(FOUR.values()):
        return source.measure == "partitions" and not stand_ins and tasks == set(FOUR.values())
    return not source.measure.startswith("held_out") or {"gtsrb", "dtd"} <= tasks


def _said_of_held_out(run: Run) -> str:
    name = next(name for name in run.results.by_method("every_partition") if "+" not in name)
    data = run.data("every_partition", name)
    assert data is not None
    names = [run.results.tasks[int(task)] for task in data["other"].to_numpy()]
    places = [_stand_in([task.lower() for task in names], which) for which in range(len(OUTSIDE))]
    stand = ", ".join(
        f"{names[place]} for {paper.upper()}"
        for place, paper in zip(places, OUTSIDE, strict=True)
        if place is not None
    )
    return (
        f"Ours are of this run's tasks, bases of {_letters(run)}; {stand}. found: the partitions whose basis"
        " nearest to the task holds M or S."
    )


def _said_of_partitions(run: Run, compared: bool) -> str:
    if (letters := _letters(run)) and set(FOUR.values()) != {task.lower() for task in run.results.tasks}:
        return f"Ours are of four tasks of this run{'' if compared else ', without difference'}: {letters}."
    if set(FOUR.values()) != {task.lower() for task in run.results.tasks}:
        return OTHERS
    beginning = "" if compared else "Ours are of another checkpoint, or of one not named: no difference. "
    return f"{beginning}Ours have α by validation, also where the paper's is fixed (TIES 0.4)."


def _own_tasks(run: Run, sheet: Sheet, source: PublishedTable) -> None:
    """Lines for the run's tasks that the paper has not."""
    known = {row.label.lower() for row in source.rows}
    for task in run.results.tasks:
        if task.lower() in known:
            continue
        row = Row(task, REGIME, {}, task, None)
        for name in source.columns:
            value = MEASURES[source.measure](run, row, name)
            if value is not None:
                sheet.ours[len(sheet.lines), name] = value
        sheet.lines.append(task)


def _norm(run: Run, row: Row, column: str) -> float | None:
    """T9: ‖τ‖ of the task, or its ratio to ‖θ0‖ in percent."""
    data = run.data("similarity", REGIME)
    names = [task.lower() for task in run.results.tasks]
    if data is None or row.label.lower() not in names:
        return None
    place = names.index(row.label.lower())
    if column == "norm":
        return float(data["norm"][place])
    return 100 * float(data["norm_ratio"][place])


def _sum_gap(run: Run, row: Row, column: str) -> float | None:
    """T3: of the task, at the α nearest to 1/T, for which the bound holds."""
    data = run.data("similarity", REGIME)
    names = [task.lower() for task in run.results.tasks]
    if data is None or "sum_loss_gap" not in data or row.label.lower() not in names:
        return None
    alpha = data["sum_alpha"].to_numpy().astype(float)
    place = int(np.abs(alpha - 1 / len(names)).argmin())
    return float(data["sum_loss_gap"].to_numpy()[names.index(row.label.lower()), place])


def _said_of_gaps(run: Run) -> str:
    data = run.data("similarity", REGIME)
    assert data is not None
    alpha = data["sum_alpha"].to_numpy().astype(float)
    means = data["sum_loss_gap"].to_numpy().astype(float).mean(axis=0)
    near = alpha[np.abs(alpha - 1 / len(run.results.tasks)).argmin()]
    every = ", ".join(f"{mean:.2f} at α = {value:g}" for value, mean in zip(alpha, means, strict=True))
    return (
        f"Ours at α = {near:g}, of all that were measured the nearest to 1/T, for which the bound is stated;"
        f" means over tasks: {every}."
    )


def _mixing(run: Run, row: Row, column: str) -> Measured | None:
    """T2: the sum of all vectors of a start, seen from either."""
    data, start = run.data("mixed_starts", REGIME), int(column[-1]) - 1
    if data is not None:
        test = accuracies.accuracies(run.results, "mixed_starts", REGIME, "accuracy")
        assert test is not None
        kind = "half" if row.label == "half of each" else "own" if row.label[-1] == column[-1] else "across"
        place = KINDS.index(kind)
        values = test.value.to_numpy()[start, place].astype(float)
        return percent(measured.measured_mean(values, test.error[start, place]))
    if row.label != "finetuned from 1" or start != 0:
        return None
    names = [task.lower() for task in run.results.tasks]
    value = partitions.measured(run.results, REGIME, "linear", "task_arithmetic").get(partitions.alone(names))
    return None if value is None else percent(value)


def _partition(run: Run, row: Row, column: str) -> Measured | None:
    """T4, T5, T10 to T12: accuracy of one partition, or the mean over several."""
    regime = "linear" if row.merge_in == "tangent" else REGIME
    method = {"tangent": "joint"}.get(row.merge_in, row.merge_in)
    scores = partitions.lettered(run.results, regime, method, row.merge_out)
    names = list(FOUR.values()) if scores else [task.lower() for task in run.results.tasks]
    scores = scores or partitions.measured(run.results, regime, row.merge_in, row.merge_out)
    four = set(names) == set(FOUR.values())
    wanted = SEVERAL.get(column)
    if wanted is not None:
        # All in one or each alone: no bases.
        if not any(1 < len(partition) < len(names) for partition in scores):
            return None
        kept = [value for partition, value in scores.items() if wanted(partition)]
        whole = sum(1 for partition in partitions.every(names) if wanted(partition)) if four else 1
        return percent(mean(kept)) if len(kept) >= whole else None
    if column in ("M-S-E-R", "save all"):
        partition: Partition | None = partitions.alone(names)
    elif column == "MSER":
        partition = partitions.together(names)
    elif four:
        partition = partitions.of_letters(column)
    else:
        partition = _chosen(run) if column == "MS-ER" else None
    value = scores.get(partition) if partition is not None else None
    return None if value is None else percent(value)


def _stand_in(places: list[str], which: int) -> int | None:
    """The place of the paper's task outside: its own, or of others the first that stands for none yet."""
    if OUTSIDE[which] in places:
        return places.index(OUTSIDE[which])
    others = [place for place, task in enumerate(places) if task not in OUTSIDE]
    before = sum(name not in places for name in OUTSIDE[:which])
    return others[before] if before < len(others) else None


def _held_out(run: Run, row: Row, column: str, which: int) -> float | str | None:
    """T7, T13, T14: another task with the nearest basis of each partition of four, GTSRB or DTD."""
    regime = "linear" if row.merge_in == "tangent" else REGIME
    method = {"tangent": "joint"}.get(row.merge_in, row.merge_in)
    data = run.data("every_partition", f"{method}/{regime}")
    if data is None or "tuned" not in data or data.sizes["member"] != len(FOUR):
        return None
    places = [str(run.results.tasks[int(task)]).lower() for task in data["other"].to_numpy()]
    place = _stand_in(places, which)
    if place is None:
        return None
    if column == "found":
        return _finds_digits(data, place)
    name, _, ending = column.partition(", ")
    values = data["one_shot" if ending else "tuned"].to_numpy()[place].astype(float)
    if name == "mean":
        return 100 * float(values.mean())
    labels = data["labels"].to_numpy()
    every = [partitions.of_labels(labelling, list(FOUR.values())) for labelling in labels]
    return 100 * float(values[every.index(partitions.of_letters(name))])


def _finds_digits(data: xr.Dataset, place: int) -> str:
    """The partitions whose basis nearest to the held-out task holds M or S (section 6.3)."""
    digits = [letter in "MS" for letter in FOUR]
    nearest = data["cluster"].to_numpy().astype(bool)[data["nearest"].to_numpy()[place].astype(int)]
    return f"{nearest[:, digits].any(axis=1).sum()}/{len(nearest)}"


def _either(run: Run, row: Row, column: str) -> float | str | None:
    """T7 names the task in each column."""
    task, _, rest = column.partition(" ")
    return _held_out(run, row, rest, ("GTSRB", "DTD").index(task))


SEVERAL: dict[str, Callable[[Partition], bool]] = {
    "mean, k = 2": lambda partition: len(partition) == 2,
    "mean, all k": lambda partition: True,
    "save one": lambda partition: len(partition) == 2 and min(len(cluster) for cluster in partition) == 1,
}


def _chosen(run: Run) -> Partition | None:
    data = run.data("bases", REGIME)
    if data is None:
        return None
    labels = partitions.spectral(data, partitions.chosen(data))
    names = [task.lower() for task in run.results.tasks]
    return None if labels is None else partitions.of_labels(labels, names)


def mean(values: list[Measured]) -> Measured:
    """All on the same points: errors are taken as fully correlated."""
    return Measured(float(np.mean(values)), float(np.mean([value.error for value in values])))


MEASURES: dict[str, Callable[[Run, Row, str], float | str | None]] = {
    "loss_gap": _sum_gap,
    "norms": _norm,
    "mixing": _mixing,
    "partitions": _partition,
    "basis_negation": negation.negated,
    "language": language.accuracy,
    "language_cosine": language.cosine,
    "held_out": _either,
    "held_out_gtsrb": lambda run, row, column: _held_out(run, row, column, 0),
    "held_out_dtd": lambda run, row, column: _held_out(run, row, column, 1),
}
