# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of τJp."""

from __future__ import annotations

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.tau_jp import figures
from taugrid_analysis.run.opened import Run


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "tau_jp",
            "τJp of every ordered pair",
            "tau_jp",
            "Mean ‖J(x)τ‖² of the encoder's output at θ0: rows whose task vector, columns whose points. One"
            " logarithmic scale; light off the diagonal is little interference.",
            [figures.tau_jp(run)],
            {"tau_jp.csv": "tau_jp"},
        ),
    ]
