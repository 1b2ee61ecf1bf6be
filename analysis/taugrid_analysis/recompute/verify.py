# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`verify RUN`: every file that a run wrote or read, against the digest that the run kept of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import line
from taugrid_analysis.recompute.inputs import (
    BASIS,
    WORD,
    changes,
    fnv1a,
    inputs,
    recorded,
    require_as_saved,
    require_as_written,
    theta0s,
)

EXPECTED = "what the run wrote; the same `taugrid run` computes a damaged unit again"


def verify(run: Path) -> int:
    """Prints how many files of each kind hold, and each that does not; 1 where one does not, else 0.

    Nothing is computed again: `recompute` asks whether the numbers are right, this whether they are those
    that were written. Files of versions that kept no digest hold where they can be read.
    """
    folder = run.parent if run.is_file() else run
    run_inputs = inputs(folder)
    results = folder / "results.h5"
    damaged = 0
    kinds: list[tuple[str, list[Path], Callable[[Path], None]]] = [
        ("results", [results] if results.exists() else [], require_as_written),
        ("units", sorted((folder / "units").glob("*.safetensors")), require_as_committed),
        ("checkpoints", sorted(_own_checkpoints(folder)), require_as_saved),
    ]
    for kind, files, require in kinds:
        problems = list(_problems(files, require))
        for problem in problems:
            print(line(f"DAMAGED  {problem}"))
        print(f"{kind:<11}  {len(files) - len(problems):,} of {len(files):,} hold")
        damaged += len(problems)
    read = recorded(folder)
    tasks = [Path(name).stem for name in read if name.endswith(".h5")]
    try:
        others = list(changes(run_inputs, tasks, ""))
    except InputError as error:  # an input that is gone is no damage of the run
        print(line(f"inputs       {error}"))
        others = []
    else:
        for file, before, now in others:
            print(line(f"CHANGED  {file}: its digest is {now or 'none'}; the run read {before}"))
        theta0 = theta0s(read)
        held = len(read) - len(theta0)
        print(f"{'inputs':<11}  {held - len(others):,} of {held:,} hold")
        if theta0:
            print("θ0           is not looked at: recompute holds its numbers against their fingerprint")
    return 1 if damaged or others else 0


def require_as_committed(unit: Path) -> None:
    """Holds a unit's file against its name and the digest in its header."""
    try:
        content = unit.read_bytes()
        length = int.from_bytes(content[:WORD], "little")
        header = json.loads(content[WORD : WORD + length])
        metadata = header.pop("__metadata__", {})
        numbers = memoryview(content)[WORD + length :]
        state = BASIS
        for name in sorted(header, key=str.encode):
            begin, end = header[name]["data_offsets"]
            state = fnv1a(numbers[begin:end], fnv1a(name.encode(), state))
        whole = len(numbers) == max((header[name]["data_offsets"][1] for name in header), default=0)
        digest = metadata.get("digest", "")
        problem = "" if whole and digest in ("", f"{state:016x}") else "is damaged"
        key = metadata.get("key", "")
        if not problem and key and key.replace("/", "__") != unit.stem:
            problem = f"is the unit {key}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        problem = "is damaged"
    if problem:
        raise InputError(problem, unit, EXPECTED)


def _own_checkpoints(folder: Path) -> Iterator[Path]:
    """Yields the checkpoints and heads in the run folder that are no links to what the run was given."""
    for path in (folder / "checkpoints").rglob("*.safetensors"):
        parents = [folder / "checkpoints", *(parent for parent in path.parents if folder in parent.parents)]
        if not any(parent.is_symlink() for parent in [path, *parents]):
            yield path


def _problems(files: list[Path], require: Callable[[Path], Any]) -> Iterator[str]:
    for path in files:
        try:
            require(path)
        except InputError as error:
            yield str(error)
