# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's sections of task vectors: cosines, signs and masks."""

from __future__ import annotations

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.similarity import figures
from taugrid_analysis.run.opened import Run


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "cosine",
            "Cosine of task vectors",
            "similarity",
            "Norms are in the table of task vectors below. The diagonal, 1, is left out. Where data sets name"
            " natural groups, the second map has tasks in the order of average linkage of 1 − |cosine|, boxes"
            " around as many clusters as there are groups, and names in the colours of their groups.",
            [figures.cosines(run), figures.grouped(run)],
            {"cosine.csv": "cosine"},
        ),
        Part(
            "signs",
            "Signs and masks of task vectors",
            "similarity",
            "Of the numbers that TIES keeps of each vector: the share of the places that two vectors both"
            " keep where their signs differ, ½ of independent signs; and the places that both keep among"
            " those that either keeps. What chance has, and the density, are in the table of sign conflicts.",
            [figures.sign_conflicts(run), figures.mask_overlaps(run)],
            {"sign_conflict.csv": "sign_conflict", "mask_overlap.csv": "mask_overlap"},
        ),
    ]
