# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of further regularised steps."""

from __future__ import annotations

import pandas as pd

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.continuation import figures, trace
from taugrid_analysis.run.opened import Run


def continuation(run: Run) -> pd.DataFrame:
    parts = []
    for name in run.results.names("continuation"):
        data = run.data("continuation", name)
        assert data is not None
        product, accuracy = trace.pair_trace(data, run.results.pairs), data["pair_normalized"].to_numpy()
        for pair in range(len(run.results.pairs)):
            columns = {"regime": name, "step": data["step"].to_numpy(), "pair": run.results.pair_name(pair)}
            parts.append(
                pd.DataFrame(columns | {"tau_jp": product[:, pair], "normalized": accuracy[:, pair]})
            )
    return pd.concat(parts) if parts else pd.DataFrame()


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "continuation",
            "Further regularised steps",
            "continuation",
            "From linear task vectors, at α = 1: the pairs of most and of least τJp at the start.",
            [figures.continuation(run)],
            {"continuation.csv": lambda: continuation(run)},
        ),
    ]
