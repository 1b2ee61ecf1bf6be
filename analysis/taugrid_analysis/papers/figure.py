# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One figure of a paper: what it needs of a run, and how it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from matplotlib.figure import Figure

from taugrid_analysis.papers import drawings
from taugrid_analysis.run.opened import Run

IDEA = "nothing from a run: it illustrates an idea"


@dataclass(frozen=True)
class Plate:
    """`needs`: paths below results.h5's root; a plate without `draw` says why in `needs`.

    start: pretrained or random, where the figure is about one of them; architectures: parts of the models'
    class names where it is about other models than the paper's main ones.
    """

    number: int
    name: str
    needs: tuple[str, ...]
    draw: drawings.Draw | None
    start: str = ""
    architectures: tuple[str, ...] = ()


def missing(run: Run, plate: Plate) -> list[str]:
    if plate.draw is None:
        return list(plate.needs)
    found = []
    if plate.start and plate.start != run.results.start:
        found.append(f"a run from {plate.start} θ0")
    model = run.results.model()
    known = "" if model is None else model.architecture.lower()
    if plate.architectures and not any(part.lower() in known for part in plate.architectures):
        found.append(f"a run of a {' or '.join(plate.architectures)}")
    for need in plate.needs:
        group, _, name = need.partition("/")
        if name not in run.results.names(group):
            found.append(f"/{need}")
    return found


def drawn(plate: Plate, every: Sequence[Run]) -> tuple[Figure | None, list[str]]:
    """The figure from all runs that have what it needs, and what the others lack."""
    lacking = [missing(run, plate) for run in every]
    able = [run for run, lacks in zip(every, lacking, strict=True) if not lacks]
    if not able or plate.draw is None:
        return None, lacking[0]
    return plate.draw(able), [
        f"{run.name} lacks {', '.join(lacks)}" for run, lacks in zip(every, lacking, strict=True) if lacks
    ]


def plates(paper: str) -> list[Plate]:
    """What papers/NAME/figures.py lists."""
    found: list[Plate] = import_module(f"taugrid_analysis.papers.{paper}.figures").FIGURES
    return found


def paths(group: str, *regimes: str) -> tuple[str, ...]:
    return tuple(f"{group}/{name}" for name in regimes)


PRE, RANDOM = "pretrained", "random"
