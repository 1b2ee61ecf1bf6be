# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The figures of the attention paper."""

from __future__ import annotations

from taugrid_analysis.papers import drawings
from taugrid_analysis.papers.drawings import each
from taugrid_analysis.papers.figure import IDEA, PaperFigure, paths
from taugrid_analysis.quantities.addition import figures as addition_figures
from taugrid_analysis.quantities.similarity import figures as similarity_figures

PARADIGMS = drawings.PARADIGMS


FIGURES = [
    PaperFigure(1, "idea", (IDEA,), None),
    PaperFigure(2, "idea", (IDEA,), None),
    PaperFigure(
        3,
        "kernel_behaviour",
        paths("single_task", "standard", "posthoc", "attention", "attention_posthoc"),
        drawings.kernel_test,
    ),
    PaperFigure(4, "idea", (IDEA,), None),
    PaperFigure(
        5,
        "nonlinear_advantage",
        paths("single_task", *PARADIGMS),
        drawings.advantage("attention", "linear", means=True),
    ),
    PaperFigure(
        6,
        "xi_levels",
        (*paths("representation", *PARADIGMS), *paths("disentanglement", *PARADIGMS)),
        drawings.levels("dtd", "sun397", 1),
    ),
    PaperFigure(7, "single_task", paths("single_task", *PARADIGMS), drawings.accuracies(*PARADIGMS)),
    PaperFigure(
        8,
        "xi_levels",
        (*paths("representation", *PARADIGMS), *paths("disentanglement", *PARADIGMS)),
        drawings.levels("cars", "resisc45", 2),
    ),
    PaperFigure(
        9,
        "alpha",
        paths("addition", *PARADIGMS),
        each(lambda run: addition_figures.addition(run, list(PARADIGMS))),
    ),
    PaperFigure(
        10,
        "cosine",
        paths("similarity", *PARADIGMS),
        each(lambda run: similarity_figures.cosines(run, list(PARADIGMS))),
    ),
]
