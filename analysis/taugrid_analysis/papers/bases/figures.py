# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The figures of the bases paper."""

from __future__ import annotations

from taugrid_analysis.papers.drawings import each
from taugrid_analysis.papers.figure import IDEA, PRE, PaperFigure, paths
from taugrid_analysis.quantities.bases import figures as bases_figures
from taugrid_analysis.quantities.similarity import figures as similarity_figures

SIMILARITY = paths("similarity", "standard")
FIGURES = [
    PaperFigure(1, "idea", (IDEA,), None),
    PaperFigure(2, "idea", (IDEA,), None),
    PaperFigure(3, "gap_by_cosine", SIMILARITY, bases_figures.gap_by_cosine, PRE),
    PaperFigure(4, "cosine", SIMILARITY, each(bases_figures.similarity), PRE),
    PaperFigure(5, "norms", SIMILARITY, bases_figures.norms, PRE),
    PaperFigure(
        6,
        "gap_by_curvature",
        (*SIMILARITY, *paths("smoothness", "standard")),
        bases_figures.gap_by_curvature,
        PRE,
    ),
    PaperFigure(7, "clusters", paths("bases", "standard"), each(bases_figures.clusters), PRE),
    PaperFigure(
        8, "accuracy_by_clusters", paths("bases", "standard"), each(bases_figures.accuracy_by_clusters), PRE
    ),
    PaperFigure(9, "early_cosine", paths("early_similarity", "standard"), each(bases_figures.early), PRE),
    PaperFigure(
        10, "nearest_basis", (*SIMILARITY, *paths("bases", "standard")), each(bases_figures.nearest), PRE
    ),
    PaperFigure(
        11,
        "tangent_cosine",
        paths("similarity", "linear"),
        each(lambda run: similarity_figures.cosines(run, ["linear"])),
        PRE,
    ),
]
