# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Takes a seeded sample of every group again and prints how far each quantity deviates."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from taugrid_analysis import quantities
from taugrid_analysis.errors import InputError
from taugrid_analysis.files import visible
from taugrid_analysis.recompute import checks, facts
from taugrid_analysis.recompute.checks import Check, Place, Reading
from taugrid_analysis.recompute.inputs import changes, require_as_written
from taugrid_analysis.recompute.oracle import Oracle

RECORDS = {  # what cannot be taken again, and why
    "dimensions": "counts",
    "pairs": "read and checked with the file",
    "provenance": "facts about the run",
    "units": "seconds of the run's own work",
}
COLUMNS = (44, 9, 9, 17, 9)
ORDER = (  # of the lines; quantities that are not named come last
    *("heads", "single_task", "multitask", "addition", "pair_addition", "negation", "similarity"),
    *("disentanglement", "representation", "tau_jp", "continuation", "smoothness", "ntk", "training", "cost"),
    *(
        "facts",
        "variants",
        "barrier",
        "merging",
        "bases",
        "basis_edits",
        "early_similarity",
        "low_rank",
        "subsets",
    ),
    *("mixed_starts", "every_partition", "generation", "linearity", "averages", "stitching"),
)


def read(run: Path, points: int | None, seed: int, only: Sequence[str]) -> int:
    """0 where every number holds, 1 where one does not."""
    with closing(Oracle(run)) as oracle:
        return _compare(oracle, points, seed, only)


def _compare(oracle: Oracle, points: int | None, seed: int, only: Sequence[str]) -> int:
    require_as_written(Path(oracle.results.filename))
    _unchanged(oracle)
    if oracle.inputs.note():
        print(visible(oracle.inputs.note()))
    parts = {name: module.checks for name, module in quantities.modules("recompute")} | {
        "facts": facts.checks
    }
    order = [*(name for name in ORDER if name in parts), *sorted(set(parts) - set(ORDER))]
    every = [check for name in order for check in parts[name](oracle)]
    known = {check.top for check in every}
    if not set(only) <= known:
        missing = ", ".join(sorted(set(only) - known))
        raise InputError(f"has no group {missing}", oracle.run, f"of {', '.join(sorted(known))}")
    wanted = [check for check in every if not only or check.top in only]
    _line("quantity", "numbers", "there are", "largest deviation", "tolerance", "where it is")
    failed, numbers, everyone, began = [], 0, 0, time.monotonic()
    for check, places in checks.chosen(iter(wanted), points, seed):
        if not places:
            continue
        at, worst = _worst(check, places)
        numbers += len(places)
        everyone += len(check.places)
        title = f"{check.group}: {check.quantity}"
        where = "/".join(str(part) for part in at)
        if not worst.holds:
            failed.append(title)
            where += f"  FAILS: stored {worst.stored:.9g}, again {worst.again:.9g}"
        _line(
            title,
            f"{len(places)}",
            f"{len(check.places)}",
            f"{worst.deviation:.2e}",
            f"{worst.tolerance:.1e}",
            where,
        )
    if not only:
        for name in sorted(set(oracle.results) - known):
            unknown = "a group that this program does not know"
            print(f"{name}: not taken again: {RECORDS.get(name, unknown)}")
    if failed:
        print(f"{len(failed)} quantities deviate by more than their tolerance: {', '.join(failed)}")
        return 1
    seconds = f"{time.monotonic() - began:.0f} s"
    if numbers == everyone:
        print(f"all {numbers:,} numbers hold ({seconds})")
    else:
        sample = f"sample of seed {seed} from {everyone:,} numbers, of which --all takes every one"
        print(f"all {numbers:,} numbers hold ({seconds}, {sample})")
    return 0


def _worst(check: Check, places: Sequence[Place]) -> tuple[Place, Reading]:
    """The reading that comes nearest to its tolerance, or goes furthest beyond it."""
    found = []
    for count, place in enumerate(places):
        _progress(f"{check.group}: {check.quantity}, {count} of {len(places)}")
        found.append((place, check.measure(place)))
    _progress("")
    return max(found, key=lambda one: _badness(one[1]))


def _progress(text: str) -> None:
    """On a terminal alone, and gone again: some numbers take a minute."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _badness(reading: Reading) -> float:
    if math.isnan(reading.deviation):  # one side alone is NaN
        return math.inf
    return reading.deviation / reading.tolerance if reading.tolerance > 0 else reading.deviation


def _line(title: str, *cells: str) -> None:
    widths = COLUMNS[1:]
    shown = "  ".join(cell.rjust(width) for cell, width in zip(cells[:-1], widths, strict=True))
    print(f"{title:<{COLUMNS[0]}} {shown}  {cells[-1]}", flush=True)


def _unchanged(oracle: Oracle) -> None:
    """Numbers of other inputs are no deviation: what has changed is said by its digest."""
    named = [*oracle.tasks, *([oracle.control] if oracle.control else [])]
    found = changes(oracle.inputs, named, oracle.fingerprint() if oracle.pretrained else "")
    told: Iterator[str] = (f"{path} was {before} and is {now}" for path, before, now in found)
    text = "; ".join(told)
    if text:
        raise InputError(f"was computed from other inputs: {text}", oracle.run, "the digests of inputs.toml")
