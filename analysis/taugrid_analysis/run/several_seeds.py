# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether runs are one experiment with several seeds."""

from __future__ import annotations

from collections.abc import Sequence

from taugrid_analysis.errors import InputError
from taugrid_analysis.run.configuration import computed
from taugrid_analysis.run.opened import Run

SEED = "run.seed"


def seeds(runs: Sequence[Run]) -> list[str]:
    """Raises InputError where two runs have one seed, or differ by more than that."""
    known = [" ".join(run.results.seeds()) for run in runs]
    for place, run in enumerate(runs):
        if known[place] in known[:place]:
            other = runs[known.index(known[place])].path
            raise InputError(
                f"has seed {known[place] or 'unknown'}, as {other} has", run.path, "another seed"
            )
    configurations = [computed(run.path.with_name("config.toml")) for run in runs]
    for run, mine in zip(runs, configurations, strict=True):
        for key in sorted({*configurations[0], *mine} - {SEED}):
            if mine.get(key) != configurations[0].get(key):
                problem = f"{key} is {mine.get(key, 'not there')}"
                raise InputError(
                    problem, run.path, f"{configurations[0].get(key, 'no such key')}, as {runs[0].path} has"
                )
    return known
