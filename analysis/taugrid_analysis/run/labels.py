# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The labels of test points, which results.h5 has not: they lie in the run folder's data."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import label
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.run.opened import Run
from taugrid_analysis.run.store import Store


def of_class(run: Run, task: int, name: str, rows: Array) -> Array | None:
    """Which of these rows of the task's test split are of the class of this name; bool, as many as rows.

    None where RUN/data is not beside results.h5, or the task has no class of this name. Raises InputError
    where the file is not what the run read.
    """
    path = run.path.parent / "data" / f"{run.results.sources[task]}.h5"
    if not path.is_file():
        return None
    store = Store(path)
    try:
        if not store.has("/class_names"):
            return None
        names = [label(entry) for entry in store.table("/class_names")]
        if name not in names:
            return None
        labels = store.array("/test/labels", (None,)).astype(int)
    finally:
        store.close()
    if len(rows) and (rows.min() < 0 or rows.max() >= len(labels)):
        raise InputError(
            f"has {len(labels)} test points", path, f"{rows.max() + 1} or more, as {run.name} measured"
        )
    return np.asarray(labels[rows] == names.index(name))
