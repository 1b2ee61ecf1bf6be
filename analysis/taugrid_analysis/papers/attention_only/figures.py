# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The figures of the attention paper."""

from __future__ import annotations

from taugrid_analysis.papers import drawings
from taugrid_analysis.papers.drawings import each
from taugrid_analysis.papers.figure import IDEA, Plate, paths
from taugrid_analysis.quantities.addition import figures as addition_figures
from taugrid_analysis.quantities.similarity import figures as similarity_figures

PARADIGMS = drawings.PARADIGMS


FIGURES = [
    Plate(1, "idea", (IDEA,), None),
    Plate(2, "idea", (IDEA,), None),
    Plate(
        3,
        "kernel_behaviour",
        paths("single_task", "standard", "posthoc", "attention", "attention_posthoc"),
        drawings.kernel_test,
    ),
    Plate(4, "idea", (IDEA,), None),
    Plate(
        5,
        "nonlinear_advantage",
        paths("single_task", *PARADIGMS),
        drawings.advantage("attention", "linear", means=True),
    ),
    Plate(
        6,
        "xi_levels",
        (*paths("representation", *PARADIGMS), *paths("disentanglement", *PARADIGMS)),
        drawings.levels("dtd", "sun397", 1),
    ),
    Plate(7, "single_task", paths("single_task", *PARADIGMS), drawings.accuracies(*PARADIGMS)),
    Plate(
        8,
        "xi_levels",
        (*paths("representation", *PARADIGMS), *paths("disentanglement", *PARADIGMS)),
        drawings.levels("cars", "resisc45", 2),
    ),
    Plate(
        9,
        "alpha",
        paths("addition", *PARADIGMS),
        each(lambda run: addition_figures.addition(run, list(PARADIGMS))),
    ),
    Plate(
        10,
        "cosine",
        paths("similarity", *PARADIGMS),
        each(lambda run: similarity_figures.cosines(run, list(PARADIGMS))),
    ),
]
