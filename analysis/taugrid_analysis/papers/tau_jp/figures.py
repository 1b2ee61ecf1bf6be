# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The figures of the τJp paper."""

from __future__ import annotations

from taugrid_analysis.papers import drawings
from taugrid_analysis.papers.drawings import each
from taugrid_analysis.papers.figure import PaperFigure, paths
from taugrid_analysis.quantities.addition import figures as addition_figures
from taugrid_analysis.quantities.continuation import figures as continuation_figures
from taugrid_analysis.quantities.similarity import figures as similarity_figures
from taugrid_analysis.quantities.tau_jp import figures as tau_jp_figures

PENALISED = ("linear", "tau_jp")
OURS = ("standard", "linear", "tau_jp")


FIGURES = [
    PaperFigure(
        1,
        "xi_by_tau_jp",
        (*paths("disentanglement", *PENALISED), *paths("tau_jp", *PENALISED)),
        each(drawings.by_product),
    ),
    PaperFigure(
        2,
        "tau_jp_and_accuracy",
        (*paths("pair_addition", *PENALISED), *paths("tau_jp", *PENALISED)),
        each(drawings.product_against_accuracy),
    ),
    PaperFigure(
        3, "continuation", ("continuation/tau_jp_continue",), each(continuation_figures.continuation)
    ),
    PaperFigure(4, "single_task", paths("single_task", *OURS), drawings.accuracies(*OURS)),
    PaperFigure(
        5,
        "addition",
        (*paths("addition", *OURS), *paths("single_task", *OURS)),
        each(lambda run: addition_figures.added(run, list(OURS), normalized=True)),
    ),
    PaperFigure(
        6,
        "tau_jp",
        paths("tau_jp", *PENALISED),
        each(lambda run: tau_jp_figures.tau_jp(run, list(PENALISED[::-1]))),
    ),
    PaperFigure(
        7,
        "cosine",
        paths("similarity", *PENALISED),
        each(lambda run: similarity_figures.cosines(run, list(PENALISED[::-1]))),
    ),
    PaperFigure(
        8,
        "tau_jp_and_cosine",
        (*paths("similarity", *PENALISED), *paths("tau_jp", *PENALISED)),
        each(drawings.product_against_cosine),
    ),
]
