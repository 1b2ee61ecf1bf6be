# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A finished run as pandas frames and xarray data sets: what tables, figures and the report are made of."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pandas as pd
import xarray as xr

from taugrid_analysis.run.frames import layers as frames_layers
from taugrid_analysis.run.frames import pairs as frames_pairs
from taugrid_analysis.run.frames import summary as frames_summary
from taugrid_analysis.run.frames import sweeps as frames_sweeps
from taugrid_analysis.run.frames import tasks as frames_tasks
from taugrid_analysis.run.older_schema import Missing, missing_numbers
from taugrid_analysis.run.results import Results


class Run:
    """One results.h5, open for reading; frames are made at first use.

    >>> import taugrid_analysis as tg
    >>> run = tg.open("runs/quickstart")
    >>> run.tasks.loc["linear", "accuracy"]
    >>> run.data("disentanglement", "linear").error.sel(alpha_1=1, alpha_2=1)
    """

    def __init__(self, path: Path | str) -> None:
        self.results = Results(Path(path))

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        results = self.results
        count = len(results.pairs)
        return (
            f"<Run {results.path}: {len(results.tasks)} tasks, {count} pairs, {', '.join(results.regimes)}>"
        )

    def close(self) -> None:
        self.results.close()

    @property
    def path(self) -> Path:
        """The path of results.h5."""
        return self.results.path

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.path.resolve().parent.name

    @property
    def regimes(self) -> list[str]:
        return self.results.regimes

    def data(self, group: str, name: str, *extra: str) -> xr.Dataset | None:
        """/GROUP/NAME of results.h5 with named dimensions; None where the run did not measure it.

        extra: variables that are so large that they are read only when they are named, such as the NTK's
        "gram".
        """
        return self.results.data(group, name, *extra)

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """One row a regime and task; frames/tasks.py lists the columns."""
        return frames_tasks.tasks(self.results)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """One row a regime and pair; frames/pairs.py lists the columns."""
        return frames_pairs.pairs(self.results)

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row a regime, pair, layer and α; frames/layers.py lists the columns."""
        return frames_layers.layers(self.results)

    @cached_property
    def layer_additions(self) -> pd.DataFrame:
        """One row a regime, pair, layer and λ of sums of task vectors; frames/layers.py lists the columns."""
        return frames_layers.additions(self.results)

    @cached_property
    def layer_negations(self) -> pd.DataFrame:
        """One row a regime, task, layer and λ of negated task vectors."""
        return frames_layers.negations(self.results)

    @cached_property
    def layer_averages(self) -> pd.DataFrame:
        """One row a regime, data set and layer of averages of models; frames/layers.py lists the columns."""
        return frames_layers.averages(self.results)

    @cached_property
    def sweeps(self) -> pd.DataFrame:
        """One row a point of every curve over α; frames/sweeps.py lists the columns."""
        return frames_sweeps.sweeps(self.results)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row a regime, means over tasks or pairs; frames/summary.py lists the columns."""
        return frames_summary.summary(self.results)

    @cached_property
    def missing(self) -> list[Missing]:
        """What an older file does not hold, and what follows from that."""
        return missing_numbers(self.results)
