# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Joules of a finished run: what its units took, by /units, and what Slurm's accounting counted meanwhile.

Slurm counts whole nodes (AcctGatherEnergyType), and its steps overlap: each row is of all that its nodes
did while the step ran. It knows a job's joules only after the job, so they are read here and are not in
results.h5.
"""

from __future__ import annotations

import csv
import math
import re
import shutil
import subprocess
from pathlib import Path

from taugrid_analysis.errors import InputError
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.run.model import Unit
from taugrid_analysis.run.results import Results

FIELDS = ("JobIDRaw", "ElapsedRaw", "ConsumedEnergyRaw")
ASKED = ("--duplicates", "--parsable2", f"--format={','.join(FIELDS)}")  # a requeued job: each of its starts
EXPECTED = f"what sacct {' '.join(ASKED)} prints"
NO_VALUE = 2**63  # Slurm writes its NO_VAL64, 2⁶⁴ − 2, where a node gave nothing
PATIENCE = 60  # seconds


def tables(path: Path, sacct: Path | None) -> list[Table]:
    with Results(path) as results:
        units, facts, where = results.units(), results.provenance(), results.path
    job = facts.get("SLURM_JOB_ID", "")
    shown = []
    if any(math.isfinite(unit.joules) for unit in units):
        shown.append(_units(units, facts, where))
    if job and (sacct is not None or shutil.which("sacct")):
        text = _file(sacct) if sacct is not None else _ask(job)
        shown.append(_slurm(job, text, sacct or "sacct"))
    elif sacct is not None:
        raise InputError("the run was no job of Slurm", where, "one whose /provenance has SLURM_JOB_ID")
    if not shown:
        raise InputError(
            "nothing counted joules",
            where,
            "a run on a machine with counters, or of Slurm, whose sacct is here or in --sacct FILE",
        )
    return shown


def _units(units: list[Unit], facts: dict[str, str], where: Path) -> Table:
    counted = [unit for unit in units if math.isfinite(unit.joules)]
    sources = ", ".join(sorted({unit.energy_source for unit in counted}))
    result = Table(
        "energy",
        "Joules of the units",
        [
            Column("kind"),
            Column("units"),
            Column("unit-seconds", 1),
            Column("joules", 1),
            Column("share", 1, percent=True),
            Column("watts", 1),
        ],
    )
    total = sum(unit.joules for unit in counted)

    def row(name: str, some: list[Unit]) -> list[Value]:
        seconds, joules = (sum(getattr(unit, field) for unit in some) for field in ("seconds", "joules"))
        share = joules / total if total > 0 else None
        return [name, len(some), seconds, joules, share, joules / seconds if seconds > 0 else None]

    for kind in dict.fromkeys(unit.kind for unit in counted):
        result.rows.append(row(kind, [unit for unit in counted if unit.kind == kind]))
    result.rows.append(row("all", counted))
    result.notes.append(
        f"counted by {sources}: each rank has its share of what its host's and GPU's counters went on by,"
        " idle power and others' work included; of a unit that was resumed, its last start alone."
    )
    if len(counted) < len(units):
        result.notes.append(f"{len(units) - len(counted)} of {len(units)} units were not counted.")
    if "joules" in facts:
        try:
            whole = float(facts["joules"])
        except ValueError:
            raise InputError(f"joules is {facts['joules']}", f"{where}:/provenance", "a number") from None
        result.notes.append(
            f"the last start, with what is between units and before results.h5: {whole:,.1f} J."
        )
    return result


def _file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(getattr(error, "strerror", None) or "is no text"), path, EXPECTED) from None


def _ask(job: str) -> str:
    try:
        done = subprocess.run(
            ["sacct", *ASKED, f"--jobs={job}"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"cannot be asked: {error}", "sacct", "an answer") from None
    if done.returncode != 0:
        said = done.stderr.strip() or f"ended with exit code {done.returncode}"
        raise InputError(said, "sacct", "an answer, or --sacct FILE")
    return done.stdout


def _slurm(job: str, text: str, where: Path | str) -> Table:
    try:
        rows = list(csv.DictReader(text.splitlines(), delimiter="|", quoting=csv.QUOTE_NONE))
    except csv.Error as error:  # a line without end, say
        raise InputError(f"cannot be read: {error}", where, EXPECTED) from None
    if not rows or not set(FIELDS) <= set(rows[0]):
        raise InputError("lacks columns", where, EXPECTED)
    result = Table(
        "slurm",
        f"Joules that Slurm counted, job {job}",
        [Column("step"), Column("seconds"), Column("joules"), Column("watts", 1)],
        notes=[
            "whole nodes, whoever works there; the job, its batch script and its steps overlap;"
            " of a chain of jobs, the run's last."
        ],
    )
    for row in rows:
        name = row["JobIDRaw"] or ""
        if name != job and not name.startswith(f"{job}."):
            continue
        seconds, joules = (_number(row[field], field, where) for field in FIELDS[1:])
        watts = joules / seconds if joules is not None and seconds else None
        result.rows.append([name.removeprefix(f"{job}.") if name != job else "job", seconds, joules, watts])
    if not result.rows:
        raise InputError(f"has no job {job}", where, "the run's own")
    starts = sum(row[0] == "job" for row in result.rows)
    if starts > 1:
        result.notes.append(f"the job was requeued: each of its {starts} starts has rows of its own.")
    if all(row[2] is None for row in result.rows):
        result.notes.append("this cluster's Slurm counts no joules (AcctGatherEnergyType).")
    return result


def _number(text: str | None, field: str, where: Path | str) -> int | None:
    """Returns None where Slurm has none: an empty cell, 0 joules, or its NO_VAL64."""
    if not text or text == "0":
        return None
    if not re.fullmatch(r"[0-9]{1,20}", text):
        said = text if len(text) <= 40 else f"{text[:40]}…"
        raise InputError(f"{field} is {said}", where, "a whole number")
    return int(text) if int(text) < NO_VALUE else None
