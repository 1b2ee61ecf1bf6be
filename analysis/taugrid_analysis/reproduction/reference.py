# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What is kept of a finished run: its tables with their errors, and what they depend on.

The file is JSON, so that a difference of two recordings can be read: a table's row is a line, a number with a
standard error is the list [number, error], and null is a cell without a number. Times are left out, because
every run has others.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import regular, write
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.page.tables import all_tables
from taugrid_analysis.run.configuration import TAKEN, computed, inputs
from taugrid_analysis.run.opened import Run

RECORDED = Path(__file__).parent / "recorded"  # the references that come with the program
FORM = 1  # of the file; another form is refused
LARGEST = 4 << 20  # bytes: it lies in the repository
NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
FACTS = ("name", "finished", "revision", "machine", "seeds")  # beside form, schema, configuration and tables
SHOWN = {"digits": 2, "percent": False, "scientific": False, "significant": False, "least": False}


@dataclass(frozen=True)
class Reference:
    """The tables of one finished run, as they are kept or as they are compared with those that are."""

    name: str
    finished: str
    revision: str
    machine: (
        str  # what rounds: LibTorch, device, processor, instructions, ranks a unit; "" where that is unknown
    )
    seeds: str
    schema: int
    configuration: dict[str, str]  # by section.key
    inputs: dict[str, str]  # digests, by the names of files and folders
    tables: list[Table]


def of_run(run: Run, name: str) -> Reference:
    """Raises InputError where the run's configuration is not beside its results."""
    results = run.results
    return Reference(
        name=name,
        finished=results.root("finished_utc"),
        revision=results.root("git_revision"),
        machine=_machine(results.provenance()),
        seeds=", ".join(results.seeds()),
        schema=results.schema,
        configuration=computed(run.path.with_name("config.toml")),
        inputs=inputs(run.path.with_name("inputs.toml")),
        tables=[_lasting(table) for table in all_tables(run, by_pair=True)],
    )


def _machine(provenance: dict[str, str]) -> str:
    """What the last digits depend on beside the program's revision."""
    computed_by = re.sub(r"taugrid \S+ \(\S+\), ", "", provenance.get("computed_by", ""))
    width = provenance.get("ranks_per_unit", "1")
    return f"{computed_by}, ranks a unit: {width}" if computed_by else ""


def _lasting(table: Table) -> Table:
    """The table without columns of times, and with nothing in the place of numbers that are none."""
    kept = [place for place, column in enumerate(table.columns) if not column.timed]
    rows = [[_number(row[place]) for place in kept] for row in table.rows]
    return Table(table.name, table.title, [table.columns[place] for place in kept], rows, list(table.notes))


def _number(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def file_of(name: str, folder: Path | None = None) -> Path:
    if not NAME.fullmatch(name):
        raise InputError(
            "is no name of a reference run", name, "small letters, digits and single underscores"
        )
    return (folder or RECORDED) / f"{name}.json"


def names(folder: Path | None = None) -> list[str]:
    return sorted(path.stem for path in (folder or RECORDED).glob("*.json"))


def of_job(name: str, folder: Path | None = None) -> list[str]:
    """The recorded runs that one job makes: NAME, and NAME_… of its further runs."""
    return [known for known in names(folder) if known == name or known.startswith(f"{name}_")]


def store(reference: Reference, folder: Path | None = None) -> None:
    """Writes NAME.json, in the place of an older one. Raises InputError where it would be too large."""
    path = file_of(reference.name, folder)
    head = {"form": FORM, **{fact: getattr(reference, fact) for fact in FACTS}, "schema": reference.schema}
    lines = [f"{_json(key)}: {_json(value)}," for key, value in head.items()]
    for title, facts in (("configuration", reference.configuration), ("inputs", reference.inputs)):
        entries = ",\n".join(f"  {_json(key)}: {_json(value)}" for key, value in sorted(facts.items()))
        lines += [f"{_json(title)}: {{", entries, "},"]
    lines.append('"tables": [')
    lines += [",\n".join(_written(table) for table in reference.tables), "]"]
    content = ("{\n" + "\n".join(lines) + "\n}\n").encode("utf-8")
    if len(content) > LARGEST:
        expected = f"at most {LARGEST:,}, because the repository keeps it"
        raise InputError(f"would have {len(content):,} bytes", path, expected)
    write(path, content)


def _written(table: Table) -> str:
    columns = [
        {
            "name": column.name,
            **{key: value for key in SHOWN if (value := getattr(column, key)) != SHOWN[key]},
        }
        for column in table.columns
    ]
    rows = ",\n".join(f"  {_json([_cell(value) for value in row])}" for row in table.rows)
    head = {"name": table.name, "title": table.title, "notes": table.notes, "columns": columns}
    return f'{_json(head)[:-1]}, "rows": [\n{rows}\n]}}'


def _cell(value: Value) -> Any:
    if isinstance(value, Measured) and math.isfinite(value.error):
        return [float(value), value.error]
    return float(value) if isinstance(value, float) else value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read(name: str, folder: Path | None = None) -> Reference:
    """Raises InputError where it is missing, damaged or of another form."""
    path = file_of(name, folder)
    if not path.exists():
        known = ", ".join(names(folder)) or "none is recorded there"
        raise InputError("does not exist", path, f"a recorded reference run: {known}")
    expected = "a whole file that `taugrid_analysis record` wrote"
    try:
        stored = json.loads(regular(path, expected).read_text(encoding="utf-8"))
        form = stored["form"]
        if form != FORM:
            raise InputError(f"has form {form}", path, f"form {FORM}, which this program reads")
        return Reference(
            **{fact: _text(stored[fact]) for fact in FACTS},
            schema=int(stored["schema"]),
            configuration={
                key: _text(value) for key, value in stored["configuration"].items() if key not in TAKEN
            },
            inputs={key: _text(value) for key, value in stored["inputs"].items()},
            tables=[_table(entry) for entry in stored["tables"]],
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        problem = f"is damaged ({type(error).__name__}: {' '.join(str(error).split())})"
        raise InputError(problem, path, expected) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _table(entry: dict[str, Any]) -> Table:
    columns = [Column(**column) for column in entry["columns"]]
    rows = [[_value(cell) for cell in row] for row in entry["rows"]]
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(
                f"a row of the table {entry['name']} has {len(row)} cells for {len(columns)} columns"
            )
    return Table(
        _text(entry["name"]), _text(entry["title"]), columns, rows, [_text(note) for note in entry["notes"]]
    )


def _value(cell: Any) -> Value:
    if isinstance(cell, list):
        value, error = cell
        return Measured(float(value), float(error))
    if cell is None or isinstance(cell, str | int | float):
        return cell
    raise TypeError(f"{cell!r} is no cell of a table")
