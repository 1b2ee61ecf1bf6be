# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of cross-task linearity."""

from __future__ import annotations

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.linearity import figures
from taugrid_analysis.run.opened import Run


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "linearity",
            "Cross-task linearity by layer",
            "linearity",
            "Features of αθ₁ + (1−α)θ₂ against α of those of θ₁ and 1 − α of those of θ₂, by layer: 0 is"
            " the embedding, the last one the encoder's output. Lines: means over points, then pairs; bands:"
            " from the mean lower to the mean upper quartile of the points. Above: 1 − cosine, which hardly"
            " tells models apart that fine-tuning changed little, beside that of the two models' own"
            " features; in the middle the same of differences from θ0's features; below: what mixing the"
            " weights misses, as a part of the distance of the two. A linearised model is exact up to"
            " rounding.",
            [figures.curves(run)],
            {"linearity.csv": lambda: run.layers},
        ),
    ]
