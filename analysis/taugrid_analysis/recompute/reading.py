# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Takes a seeded sample of every group again and prints how far each quantity deviates."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
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


class Clock:
    """The time that is left, shared out: a quantity has a part, and leaves what it saves to those behind."""

    def __init__(self, seconds: float) -> None:
        self.began = time.monotonic()
        self.end = self.began + seconds

    def share(self, quantities: int) -> float:
        """When the next of so many quantities stops."""
        now = time.monotonic()
        return now + max(0.0, self.end - now) / quantities

    def passed(self) -> float:
        return time.monotonic() - self.began

    def left(self, numbers: int, before: int, count: int) -> str:
        """The pace so far goes on, no longer than the time for all; "" before the first number.

        numbers: of all quantities; before: those of the quantities that are done; count: of this one.
        """
        done = before + count
        if done == 0:
            return ""
        seconds = min(self.passed() / done * (numbers - done), max(0.0, self.end - time.monotonic()))
        return f", about {duration(seconds)} left"


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def read(run: Path, points: int | None, seed: int, only: Sequence[str], seconds: float = math.inf) -> int:
    """0 where every number holds, 1 where one does not.

    After `seconds` each further quantity has one number.
    """
    clock = Clock(seconds)
    with closing(Oracle(run)) as oracle:
        return _compare(oracle, points, seed, only, clock)


def _compare(oracle: Oracle, points: int | None, seed: int, only: Sequence[str], clock: Clock) -> int:
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
    drawn = [(check, places) for check, places in checks.chosen(iter(wanted), points, seed) if places]
    most, everyone = sum(len(places) for _, places in drawn), sum(len(check.places) for check, _ in drawn)
    summary = f"up to {most:,} of {everyone:,} numbers, {len(drawn)} quantities"
    print(summary + (f", {duration(clock.end - clock.began)} for them" if clock.end < math.inf else ""))
    _line("quantity", "numbers", "there are", "largest deviation", "tolerance", "where it is")
    failed, numbers, asked = [], 0, 0
    for turn, (check, places) in enumerate(drawn):
        until = clock.share(len(drawn) - turn)
        readings = _taken(check, places, until, partial(clock.left, most, asked))
        at, worst = max(readings, key=lambda entry: _badness(entry[1]))
        numbers += len(readings)
        asked += len(places)
        title = f"{check.group}: {check.quantity}"
        where = "/".join(str(part) for part in at)
        if not worst.holds:
            failed.append(title)
            where += f"  FAILS: stored {worst.stored:.9g}, again {worst.again:.9g}"
        _line(
            title,
            f"{len(readings)}",
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
    seconds = f"{clock.passed():.0f} s"
    if numbers < most:
        print(f"for want of time {numbers:,} of the {most:,} numbers of the sample: --minutes M takes more")
    if numbers == everyone:
        print(f"all {numbers:,} numbers hold ({seconds})")
    else:
        sample = f"sample of seed {seed} from {everyone:,} numbers, of which --all takes every one"
        print(f"all {numbers:,} numbers hold ({seconds}, {sample})")
    return 0


def _taken(
    check: Check, places: Sequence[Place], until: float, left: Callable[[int], str]
) -> list[tuple[Place, Reading]]:
    """The numbers at these places again, in their order: one, and further ones until then."""
    readings: list[tuple[Place, Reading]] = []
    for count, place in enumerate(places):
        if readings and time.monotonic() > until:
            break
        _progress(f"{check.group}: {check.quantity}, {count} of {len(places)}{left(count)}")
        readings.append((place, check.measure(place)))
    _progress("")
    return readings


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
    changed = changes(oracle.inputs, named, oracle.fingerprint() if oracle.pretrained else "")
    lines: Iterator[str] = (f"{path} was {before} and is {now}" for path, before, now in changed)
    text = "; ".join(lines)
    if text:
        raise InputError(f"was computed from other inputs: {text}", oracle.run, "the digests of inputs.toml")
