# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The disentanglement error of the encoder's output."""

from __future__ import annotations

from taugrid_analysis.numbers import correlation
from taugrid_analysis.numbers.means import mean
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.run.opened import Run


def representation(run: Run) -> Table:
    """The encoder's outputs beside the classifiers' predictions (paper 4, section 4)."""
    table = Table(
        "representation",
        "Disentanglement error of the encoder's output (KL, nat) beside the predictions', mean over pairs",
        [
            Column("regime"),
            *[
                Column(f"{kind} {place}", 4)
                for kind in ("KL", "½ sym. KL")
                for place in ("(1,1)", "box", "grid")
            ],
            *[Column(f"ξ{place}", 3) for place in ("(1,1)", " box", " grid")],
            Column("rank correlation at (1,1)", 2),
        ],
    )
    for regime in run.results.names("representation"):
        frame = run.pairs.loc[regime]
        row: list[Value] = [regime]
        for prefix in ("kl", "symmetric_kl", "xi"):
            row += [mean(frame[f"{prefix}_{place}"]) for place in ("one", "box", "grid")]
        row.append(correlation.rank_correlation(frame["kl_one"].to_numpy(), frame["xi_one"].to_numpy()))
        table.rows.append(row)
    if table.rows:
        table.notes += [
            "box: grid points in [0,1]²; grid: all of them. Without ±: divergences of single points are not"
            " stored.",
            "KL: of θ0 + α_t τ_t from the sum, as equation 2 of the attention paper; ½ sym. KL: half the sum"
            " of both directions, as its authors' code.",
            "The colours of its figures 6 and 8 (0 to about 0.2) are of the symmetric kind. They are lower"
            " still: the code adds up 16 batches of 128 and divides by all batches of the test split (63 of"
            " Cars, 50 of RESISC45), so compare ½ sym. KL × 16/63 or × 16/50 with them.",
        ]
    return table


TABLES = {"representation": representation}
