# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""results.h5 as checked arrays: one clear line where the file does not keep the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import locate, text
from taugrid_analysis.records import Array

SCHEMA_VERSION = 1
ROOT_ATTRIBUTES = (
    "taugrid_version",
    "git_revision",
    "command_line",
    "started_utc",
    "finished_utc",
)


class Reader:
    """One results.h5, open for reading, with its tasks and pairs."""

    def __init__(self, run: Path) -> None:
        self.path = locate(run)
        try:
            self._file = h5py.File(self.path, "r")
        except OSError as error:
            raise InputError(
                f"not readable as HDF5 ({' '.join(str(error).split())})", self.path, "a complete results.h5"
            ) from error
        self._check_root()
        self.tasks = [text(name) for name in self._vector("/tasks/name")]
        self.classes = self._array("/tasks/classes", (len(self.tasks),)).astype(int)
        self.pairs = self._pairs()

    def _pairs(self) -> Array:
        """[P,2]: those that were measured, in the file's order. A run of one task has none and lists none."""
        path, count = "/pairs/tasks", len(self.tasks)
        if count == 1 and path not in self._file:
            return np.empty((0, 2), dtype=int)
        pairs = self._array(path, (None, 2))
        if pairs.dtype.kind not in "iu" or np.any((pairs < 0) | (pairs >= count)):
            raise InputError("holds no tasks' numbers", f"{self.path}:{path}", f"whole numbers below {count}")
        sides = [frozenset(pair) for pair in pairs.tolist()]
        if len(set(sides)) < len(sides) or any(len(side) < 2 for side in sides):
            raise InputError(
                "lists a pair twice, or a task with itself", f"{self.path}:{path}", "pairs of tasks"
            )
        return pairs.astype(int)

    def _of_pairs(self, group: str) -> bool:
        """Whether the group is there, and a pair that it could tell of."""
        return group in self._file and len(self.pairs) > 0

    def pair_name(self, pair: int) -> str:
        first, second = self.pairs[pair]
        return f"{self.tasks[first]} + {self.tasks[second]}"

    def _check_root(self) -> None:
        attributes = self._file.attrs
        if "schema_version" not in attributes:
            raise InputError("attribute schema_version is missing", self.path, f"{SCHEMA_VERSION}")
        found = text(attributes["schema_version"])
        if found != str(SCHEMA_VERSION):
            raise InputError(
                f"schema_version is {found}", self.path, f"{SCHEMA_VERSION}, which this program reads"
            )
        for name in ROOT_ATTRIBUTES:
            if name not in attributes:
                raise InputError(f"attribute {name} is missing", self.path, "a complete results.h5")

    def _vector(self, path: str) -> Any:
        if path not in self._file:
            raise InputError("is missing", f"{self.path}:{path}", "a data set of schema 1")
        node = self._file[path]
        if not isinstance(node, h5py.Dataset):
            raise InputError("is a group", f"{self.path}:{path}", "a data set")
        return node[()]

    def _array(self, path: str, shape: tuple[int | None, ...]) -> Array:
        """The data set as it is stored; None in `shape` stands for any length."""
        values = np.asarray(self._vector(path))
        fits = len(values.shape) == len(shape) and all(
            want in (None, have) for want, have in zip(shape, values.shape, strict=True)
        )
        if not fits:
            wanted = "[" + ", ".join("any" if want is None else str(want) for want in shape) + "]"
            raise InputError(f"has shape {list(values.shape)}", f"{self.path}:{path}", f"shape {wanted}")
        return values

    def _increasing(self, path: str, least: int, what: str) -> Array:
        values = self._array(path, (None,))
        if len(values) < least or np.any(np.diff(values) <= 0):
            raise InputError("is not increasing", f"{self.path}:{path}", f"at least {least} {what}")
        return values

    def _scalar(self, path: str) -> float:
        return float(self._array(path, ()))

    def _optional_scalar(self, path: str) -> float | None:
        return self._scalar(path) if path in self._file else None

    def _attribute(self, group: str, name: str, expected: str) -> str:
        if name not in self._file[group].attrs:
            raise InputError(f"attribute {name} is missing", f"{self.path}:{group}", expected)
        return text(self._file[group].attrs[name])

    def _has(self, *parts: str) -> bool:
        return "/".join(parts) in self._file

    def _samples(self, group: str) -> int | None:
        """Points a task, where the group says which were sampled."""
        path = f"{group}/sample_index"
        return int(self._file[path].shape[1]) if path in self._file else None
