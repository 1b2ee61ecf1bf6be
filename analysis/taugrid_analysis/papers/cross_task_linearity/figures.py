# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The figures of the cross-task linearity paper."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from taugrid_analysis.papers.drawings import each
from taugrid_analysis.papers.figure import IDEA, PRE, PaperFigure
from taugrid_analysis.quantities.averages import figures as averages_figures
from taugrid_analysis.quantities.causes import figures as causes_figures
from taugrid_analysis.quantities.linearity import edit_figures
from taugrid_analysis.quantities.linearity import figures as linearity_figures
from taugrid_analysis.quantities.stitching import figures as stitching_figures
from taugrid_analysis.run.opened import Run


def _layers(
    number: int, name: str, draw: Callable[[Run], Figure | None], architecture: str = ""
) -> PaperFigure:
    """1 − cosine, or the coefficient, by layer."""
    name = f"{name}_{architecture.lower()}" if architecture else name
    chosen = (architecture,) if architecture else ()
    return PaperFigure(number, name, ("linearity/standard",), each(draw), PRE, chosen)


def _averages(number: int, name: str, quantities: tuple[str, ...], last: int) -> PaperFigure:
    """Draws the average of several models by layer, the last stages."""
    draw = each(lambda run: linearity_figures.averages(run, "standard", quantities, last))
    return PaperFigure(number, name, ("layer_averages/standard",), draw, PRE)


def _edits(
    number: int, name: str, draw: Callable[[Run], Figure | None], architecture: str = ""
) -> PaperFigure:
    """Sums or negations by layer."""
    needs = tuple(f"layer_{kind}/standard" for kind in ("addition", "negation") if kind in name or number < 9)
    return PaperFigure(number, name, needs, each(draw), PRE, (architecture,) if architecture else ())


def _edited(number: int, kind: str, last: int, architecture: str) -> PaperFigure:
    """1 − cosine, and the coefficient, of one kind."""
    name = f"{kind}_by_layer" + ("_t5" if architecture == "T5" else "")
    return _edits(
        number, name, lambda run: edit_figures.both(run, "standard", f"layer_{kind}", last), architecture
    )


KINDS = (edit_figures.ADDITION, edit_figures.NEGATION)
SIX = 6  # pairs of the paper's four tasks


FIGURES = [
    PaperFigure(1, "idea", (IDEA,), None),
    _layers(2, "cosine", lambda run: linearity_figures.pairs(run, "standard")),
    _layers(3, "coefficient", lambda run: linearity_figures.coefficients(run, "standard")),
    PaperFigure(
        4,
        "averages",
        ("averages/standard",),
        each(lambda run: averages_figures.averages(run, "standard")),
        PRE,
    ),
    _averages(5, "average_cosine", ("cosine",), 7),
    _averages(6, "average_coefficient", ("coefficient",), 7),
    _edits(7, "edits_cosine", lambda run: edit_figures.curves(run, "standard", KINDS, 5)),
    _edits(8, "edits_coefficient", lambda run: edit_figures.distributions(run, "standard", KINDS, 5)),
    PaperFigure(
        9,
        "stitched_pairs",
        ("stitching/standard",),
        each(lambda run: stitching_figures.stitched_pairs(run, "standard")),
        PRE,
    ),
    PaperFigure(
        10,
        "stitched_negations",
        ("stitching/standard",),
        each(lambda run: stitching_figures.stitched_negations(run, "standard")),
        PRE,
    ),
    # Over runs together, of which jobs/causes.sh makes as many as it takes.
    PaperFigure(11, "epochs", ("linearity/standard",), causes_figures.epochs),
    PaperFigure(12, "replaced", ("linearity/standard",), causes_figures.replaced),
    _layers(13, "cosine", lambda run: linearity_figures.pairs(run, "standard", SIX), "MLP"),
    _layers(14, "coefficient", lambda run: linearity_figures.every_coefficient(run, "standard"), "MLP"),
    _layers(15, "cosine", lambda run: linearity_figures.pairs(run, "standard", SIX), "ResNet"),
    _layers(16, "coefficient", lambda run: linearity_figures.every_coefficient(run, "standard"), "ResNet"),
    # All blocks, on two data sets.
    _averages(17, "average_by_layer", ("cosine", "coefficient"), 12),
    _averages(18, "average_by_layer", ("cosine", "coefficient"), 12),
    # All blocks of ViT-B/32, the last twelve of ViT-L/14; the last six of T5's encoder and of its decoder.
    _edited(19, "addition", 12, "CLIP"),
    _edited(20, "addition", 12, "CLIP"),
    _edited(21, "addition", 12, "T5"),
    _edited(22, "negation", 12, "CLIP"),
    _edited(23, "negation", 12, "CLIP"),
    _edited(24, "negation", 12, "T5"),
]
