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
class PaperFigure:
    """`needs`: paths below results.h5's root; a figure without `draw` says why in `needs`.

    start: pretrained or random, where the figure is about one of them; architectures: parts of the models'
    class names where it is about other models than the paper's main ones.
    """

    number: int
    name: str
    needs: tuple[str, ...]
    draw: drawings.Draw | None
    start: str = ""
    architectures: tuple[str, ...] = ()


def missing(run: Run, shown: PaperFigure) -> list[str]:
    if shown.draw is None:
        return list(shown.needs)
    lacking = []
    if shown.start and shown.start != run.results.start:
        lacking.append(f"a run from {shown.start} θ0")
    model = run.results.model()
    known = "" if model is None else model.architecture.lower()
    if shown.architectures and not any(part.lower() in known for part in shown.architectures):
        lacking.append(f"a run of a {' or '.join(shown.architectures)}")
    for need in shown.needs:
        group, _, name = need.partition("/")
        if name not in run.results.names(group):
            lacking.append(f"/{need}")
    return lacking


def drawn(shown: PaperFigure, every: Sequence[Run]) -> tuple[Figure | None, list[str]]:
    """The figure from all runs that have what it needs, and what the others lack."""
    lacking = [missing(run, shown) for run in every]
    able = [run for run, lacks in zip(every, lacking, strict=True) if not lacks]
    if not able or shown.draw is None:
        return None, lacking[0]
    return shown.draw(able), [
        f"{run.name} lacks {', '.join(lacks)}" for run, lacks in zip(every, lacking, strict=True) if lacks
    ]


def of_paper(paper: str) -> list[PaperFigure]:
    """What papers/NAME/figures.py lists."""
    figures: list[PaperFigure] = import_module(f"taugrid_analysis.papers.{paper}.figures").FIGURES
    return figures


def paths(group: str, *regimes: str) -> tuple[str, ...]:
    return tuple(f"{group}/{name}" for name in regimes)


PRE, RANDOM = "pretrained", "random"
