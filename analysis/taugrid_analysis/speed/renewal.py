# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""References from a measurement, so that nobody types them."""

from __future__ import annotations

import glob
import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.speed import check, noise, references
from taugrid_analysis.speed.references import PATTERNS, Reference, System
from taugrid_analysis.speed.samples import Side

HEAD = """\
# Expected speeds, written by `python -m taugrid_analysis check CURRENT --write-references FILE`, which renews
# the values and keeps the patterns and tolerances that you set by hand, but not your comments.
# The first system counts whose shell patterns all match. Per case and ranks: the median may be worse than
# value by the part `slower`, better by the part `faster`; beyond `bound` the measurement is broken.
"""
PEAK_MARGIN = 0.8  # of the time at the machine's peak: a busy machine finds a peak that is too low
AT_MOST, AT_LEAST = 0.5, 0.25  # of the reference's time: the peak decides between them


def renew(
    path: Path, side: Side, name: str | None, quantity: str, tolerances: tuple[float, float], clock: str
) -> str:
    """The file's new content. A case that the file already knows keeps its kind and tolerances."""
    systems = references.read(path) if path.exists() else []
    old = references.choose(systems, side, name)
    if old is None:
        patterns = {key: glob.escape(side.about(context)) for key, context in PATTERNS.items()}
        patterns = {key: text for key, text in patterns.items() if text != "unknown"}
        old = System(name or side.about("host_name"), patterns, [])
        if any(system.name == old.name for system in systems):
            raise InputError(f"has another system {old.name}", path, "--system with a new name")
        systems.append(old)
    by_case = {(reference.case, reference.ranks): reference for reference in old.references}
    for case in side.cases():
        if failure := side.failure(case):
            raise InputError(f"{case} is INVALID ({failure})", side.path, "right results to refer to")
        known = by_case.get((case, side.ranks))
        if known is None:
            slower, faster = tolerances
            known = Reference(case, side.ranks, quantity, 1.0, slower, faster, time=clock)
        by_case[case, side.ranks] = _measured(known, side)
    new = System(old.name, old.patterns, list(by_case.values()))
    return HEAD + "".join(_toml(new if system is old else system) for system in systems)


def _measured(known: Reference, side: Side) -> Reference:
    value = noise.middle(check.samples(side, known.case, known.quantity, known.time))
    if not math.isfinite(value) or value <= 0:
        raise InputError(f"{known.case} has no {known.quantity}", side.path, "--quantity seconds")
    share = float(np.median([times.share for times in side.of(known.case)]))
    least = max(AT_LEAST, min(AT_MOST, PEAK_MARGIN * share)) if share > 0 else AT_LEAST
    if known.sign < 0:
        least = min(least, (1 - known.faster) / 2)
        bound = value * least
    else:
        bound = value * max(1 / least, (1 + known.faster) * 2)
    versions = " | ".join(dict.fromkeys(call.context.get("taugrid", "") for call in side.calls))
    calls = len(side.seconds(known.case, known.time))
    measured = f"{side.calls[-1].context['date']}, calls: {calls}, {versions}"
    return replace(known, value=value, bound=bound, measured=measured)


def _toml(system: System) -> str:
    head = f"system.{_key(system.name)}"
    lines = ["", f"[{head}]", *(f"{key} = {_text(value)}" for key, value in system.patterns.items())]
    for reference in system.references:
        lines += ["", f"[[{head}.reference]]"]
        for key, value in asdict(reference).items():
            if isinstance(value, str):
                if value:
                    lines.append(f"{key} = {_text(value)}")
            elif value is not None:
                lines.append(f"{key} = {value:.5g}" if isinstance(value, float) else f"{key} = {value}")
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    """TOML's basic strings escape as JSON's do, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
