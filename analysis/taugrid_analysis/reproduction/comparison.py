# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether a run finds the recorded numbers again, each within its error.

A number with standard errors e on both sides lies |a − b| / √(e_a² + e_b²) errors apart. It parts where that
is beyond the bound that any of N such numbers exceeds by chance in 5 % of comparisons at most (Bonferroni:
the normal quantile of 1 − 0.05 / 2N). Both runs draw the same test points, so the difference has less error.

A number without an error is the same where only the last digits differ (ROUNDING). Whether it parts beyond
these can be said only where LibTorch, device and processor are the recorded ones: others round otherwise,
training amplifies that, and no error tells by how much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from scipy import stats

from taugrid_analysis.errors import InputError
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.table import Column, Table, Value, beginning
from taugrid_analysis.reproduction.reference import Reference

CHANCE = 0.05  # of any number beyond the bound where nothing but the test points differs
ROUNDING = 1e-6  # relative, of a number without an error
PRECISION = "run.precision"  # may be another: what parts then is what it changes
NOTHING = 1e-12  # below that a number is 0 but for rounding
MOST = 20  # lines that are shown of those that part

Place = tuple[str, str, str]  # table, row, column


@dataclass(frozen=True)
class Number:
    """A cell of a table that both runs have."""

    place: Place
    column: Column
    recorded: float
    again: float

    @property
    def error(self) -> float:
        """The standard error of the difference of independent samples; 0 where either side has none."""
        errors = [
            value.error if isinstance(value, Measured) else 0.0 for value in (self.recorded, self.again)
        ]
        return math.hypot(*errors) if all(math.isfinite(error) and error > 0 for error in errors) else 0.0

    @property
    def apart(self) -> float:
        """In errors; NaN of a number without one."""
        return abs(self.again - self.recorded) / self.error if self.error else math.nan

    @property
    def relative(self) -> float:
        """The difference as a part of the larger of the two."""
        largest = max(abs(self.recorded), abs(self.again))
        return abs(self.again - self.recorded) / largest if largest > NOTHING else 0.0


@dataclass(frozen=True)
class Comparison:
    """What a run has of the numbers of a reference."""

    recorded: Reference
    again: Reference
    same_machine: bool  # the run was made by what rounds like the recorded one
    numbers: list[Number] = field(default_factory=list)  # that both have
    lost: list[Place] = field(default_factory=list)  # that the run lacks, and not for its rounding alone
    further: int = 0  # numbers that the reference lacks
    texts: list[Place] = field(default_factory=list)  # other words, such as the name of a choice

    @cached_property
    def with_error(self) -> list[Number]:
        return [number for number in self.numbers if number.error]

    @cached_property
    def without_error(self) -> list[Number]:
        return [number for number in self.numbers if not number.error]

    @cached_property
    def bound(self) -> float:
        """In errors, of any number with one."""
        return float(stats.norm.isf(CHANCE / (2 * max(len(self.with_error), 1))))

    @cached_property
    def beyond_error(self) -> list[Number]:
        return [number for number in self.with_error if number.apart > self.bound]

    @cached_property
    def beyond_rounding(self) -> list[Number]:
        return [number for number in self.without_error if number.relative > ROUNDING]

    @cached_property
    def parted(self) -> list[Number]:
        """The furthest first: in errors, then of those without an error in parts of the number."""
        strict = self.beyond_rounding if self.same_machine else []
        return [
            *sorted(self.beyond_error, key=lambda number: -number.apart),
            *sorted(strict, key=lambda number: -number.relative),
        ]

    @cached_property
    def agrees(self) -> bool:
        return not self.parted and not self.lost

    @cached_property
    def bitwise(self) -> bool:
        return not self.lost and all(number.recorded == number.again for number in self.numbers)


def compare(recorded: Reference, again: Reference, where: object) -> Comparison:
    """Raises InputError where the two are no runs of the same experiment; `where` names the second."""
    _refuse_others(recorded, again, where)
    same_machine = (
        bool(recorded.machine) and recorded.machine == again.machine and not other_precision(recorded, again)
    )
    numbers, words = _cells(recorded.tables)
    numbers_again, words_again = _cells(again.tables)
    return Comparison(
        recorded,
        again,
        same_machine,
        [
            Number(place, column, value, numbers_again[place][1])
            for place, (column, value) in numbers.items()
            if place in numbers_again
        ],
        [
            place
            for place in numbers
            if place not in numbers_again and (same_machine or place not in words_again)
        ],
        sum(place not in numbers for place in numbers_again),
        [place for place, word in words.items() if words_again.get(place, word) != word],
    )


def other_precision(recorded: Reference, again: Reference) -> bool:
    return recorded.configuration.get(PRECISION) != again.configuration.get(PRECISION)


def _refuse_others(recorded: Reference, again: Reference, where: object) -> None:
    title = f"of the recorded run {recorded.name}"
    if recorded.schema != again.schema:
        raise InputError(f"schema_version is {again.schema}", where, f"{recorded.schema}, that {title}")
    for key in sorted({*recorded.configuration, *again.configuration} - {PRECISION}):
        value, wanted = again.configuration.get(key), recorded.configuration.get(key)
        if value != wanted:
            problem = f"{key} is {value}" if value is not None else f"has no {key} in its configuration"
            expected = f"{wanted}, the value {title}" if wanted is not None else f"no such key, as {title}"
            raise InputError(problem, where, expected)


def _cells(tables: list[Table]) -> tuple[dict[Place, tuple[Column, float]], dict[Place, str]]:
    """Numbers and words by their places; no word is a cell without a number.

    A row is named by the words before its first number.
    """
    numbers: dict[Place, tuple[Column, float]] = {}
    words: dict[Place, str] = {}
    for table in tables:
        seen: dict[str, int] = {}
        for row in table.rows:
            name = " · ".join(beginning(row)) or "(unnamed)"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f" ({seen[name]})"
            for column, value in zip(table.columns, row, strict=True):
                place = (table.name, name, column.name)
                if value is None or isinstance(value, str):
                    words[place] = value or ""
                else:
                    numbers[place] = (column, value)
    return numbers, words


def table(compared: Comparison, whole: bool = False) -> Table:
    """The numbers that part, the furthest first, and the verdict; `whole`: every number."""
    recorded, again = compared.recorded, compared.again
    result = Table(
        "reproduce",
        f"{recorded.name} again, against its recorded run",
        [Column(name) for name in ("table", "row", "column", "recorded", "again", "apart")],
    )
    numbers = compared.parted
    if whole:
        numbers = sorted(compared.with_error, key=lambda number: -number.apart)
        numbers += sorted(compared.without_error, key=lambda number: -number.relative)
    lost: list[list[Value]] = [[*place, "a number", "none", "missing"] for place in compared.lost]
    rows = [*lost, *map(_row, numbers)]
    result.rows = rows if whole else rows[:MOST]
    if len(rows) > len(result.rows):
        result.notes.append(f"{len(rows) - MOST:,} more part: --all prints them.")
    for title, run in (("recorded", recorded), ("again", again)):
        place = run.machine or "a machine that the file does not name"
        result.notes.append(f"{title}: {run.finished}, revision {run.revision}, {place}")
    changed = [name for name, digest in recorded.inputs.items() if again.inputs.get(name, digest) != digest]
    if changed:
        result.notes.append(
            f"Inputs with other contents than then: {', '.join(changed)}. Numbers may part for that alone."
        )
    result.notes += _counts(compared)
    result.notes.append(_verdict(compared))
    return result


def _row(number: Number) -> list[Value]:
    column = number.column
    unit = " %" if column.percent else ""
    apart = f"{number.apart:.1f} errors" if number.error else f"{100 * number.relative:.2g} %"
    shown = [column.show(value) + unit for value in (number.recorded, number.again)]
    return [*number.place, *shown, apart]


def _counts(compared: Comparison) -> list[str]:
    equal = sum(number.recorded == number.again for number in compared.numbers)
    notes = [f"{len(compared.numbers):,} numbers are in both, {equal:,} of them bitwise the same."]
    if compared.further or compared.texts:
        notes.append(
            f"{compared.further:,} numbers are new, and {len(compared.texts):,} words, such as names of"
            " choices, are others; neither decides."
        )
    if compared.with_error:
        agree = len(compared.with_error) - len(compared.beyond_error)
        notes.append(
            f"{agree:,} of {len(compared.with_error):,} with an error agree: they are no more than"
            f" {compared.bound:.2f} combined standard errors apart, which chance exceeds for any of them in"
            f" {100 * CHANCE:g} % of comparisons at most (Bonferroni)."
        )
    if compared.without_error:
        agree = len(compared.without_error) - len(compared.beyond_rounding)
        notes.append(
            f"{agree:,} of {len(compared.without_error):,} without an error agree to one part in"
            f" {1 / ROUNDING:,.0f}."
        )
    if other := other_precision(compared.recorded, compared.again):
        words = [run.configuration.get(PRECISION, "unsaid") for run in (compared.recorded, compared.again)]
        notes.append(
            f"{PRECISION} was {words[0]} when it was recorded, and is {words[1]} here: what parts is"
            " what that changes. Training amplifies rounding: single accuracies may move by several points."
        )
    if compared.bitwise or other:
        return notes
    if not compared.same_machine:
        notes.append(
            "Another device, processor or LibTorch computed: it rounds otherwise, and training amplifies"
            " that. So numbers without an error decide nothing here, and those with one may part too: the"
            " error is of the test points alone, and in small runs accuracies may move by several points."
        )
    elif compared.recorded.revision != compared.again.revision:
        notes.append(
            "The same machine, another revision: where numbers differ, the program computes otherwise."
        )
    else:
        notes.append("The same machine and revision should give bitwise the same numbers, and do not.")
    return notes


def _verdict(compared: Comparison) -> str:
    if compared.bitwise:
        return "verdict: reproduced, bit for bit"
    if compared.agrees:
        return "verdict: reproduced within errors"
    lost = f", {len(compared.lost):,} are missing" if compared.lost else ""
    return f"verdict: PARTS: {len(compared.parted):,} numbers part{lost}"
