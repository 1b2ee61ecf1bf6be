# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report's section of the NTK."""

from __future__ import annotations

import pandas as pd

from taugrid_analysis.page.section import Part
from taugrid_analysis.quantities.ntk import figures, shares
from taugrid_analysis.quantities.ntk import figures as ntk_figures
from taugrid_analysis.run.opened import Run


def _kernel_caption(run: Run) -> str:
    kernels = [run.data("ntk", start) for start in run.results.names("ntk")]
    known = any(data is not None and "null_share" in data for data in kernels)
    right = (
        "Right: share less null; 0 is a control like the task itself."
        if known
        else "This run did not measure it, so that the shares do not say whether the kernel is localised."
    )
    return (
        "Σφ² over the eigenfunctions of the kernel between a trained task's points and those of it and a"
        " control task, mean over logits. The kernel of points with themselves lifts the own share above"
        " ½ even where the control is more of the same task: that share is the null, measured with second"
        f" samples of the task. {right}"
    )


def energy(run: Run) -> pd.DataFrame:
    """The points of the histograms that are drawn."""
    parts = []
    for start in run.results.names("ntk"):
        data = run.data("ntk", start)
        assert data is not None
        chosen = ntk_figures.median_pair(shares.own_share(data["local_energy"].to_numpy()))
        for values, name, _ in (
            ntk_figures.parts(data, *chosen, run.results.tasks) if chosen is not None else []
        ):
            parts.append(pd.DataFrame({"start": start, "points": name, "energy": values}))
    return pd.concat(parts) if parts else pd.DataFrame()


def sections(run: Run) -> list[Part]:
    return [
        Part(
            "ntk",
            "Local energy of the NTK's eigenfunctions",
            "ntk",
            _kernel_caption(run),
            [figures.local_energy(run)],
            {"ntk_share.csv": "ntk", "ntk_energy.csv": lambda: energy(run)},
        ),
    ]
