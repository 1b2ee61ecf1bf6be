# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""An HDF5 file read with checks: one clear line where it is not what was promised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import label, visible
from taugrid_analysis.numbers.arrays import Array

Shape = tuple[int | None, ...]  # None stands for any length
UNPACKED_ALWAYS = 256 << 20  # bytes that a data set of any file may have
RATIO_MOST = 64  # that a larger one may have for each byte of its file: more is made to fill the memory


def opened(path: Path, expected: str) -> h5py.File:
    """Opens an HDF5 file for reading. Raises InputError where that fails, or another program writes it."""
    try:
        return h5py.File(path, "r")
    except BlockingIOError as error:  # HDF5 locks what it writes
        raise InputError(
            "is open in another program, which writes it", path, "a file that is closed"
        ) from error
    except OSError as error:
        problem = f"not readable as HDF5 ({' '.join(str(error).split())})"
        raise InputError(problem, path, expected) from error


class Store:
    """One file, open for reading until `close`; nobody writes to it, so that what was asked once is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._nodes: dict[str, h5py.Group | h5py.Dataset | None] = {}
        self._attributes: dict[str, dict[str, Any]] = {}
        self._file = opened(path, "a complete results.h5")

    def close(self) -> None:
        self._file.close()

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        """Says which part of a damaged file cannot be read."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:  # a damaged file makes h5py raise nearly anything
            problem = f"cannot be read ({visible(' '.join(str(error).split()))})"
            raise InputError(problem, self.where(path), "a whole results.h5") from error

    def _at(self, path: str) -> h5py.Group | h5py.Dataset | None:
        if path not in self._nodes:
            with self._reading(path):
                self._nodes[path] = self._file.get(path)
        return self._nodes[path]

    def _values(self, path: str) -> Any:
        """What a data set holds, unless that is far more than the file has bytes for."""
        node = self._node(path)
        with self._reading(path):
            unpacked = node.size * node.dtype.itemsize
            most = max(UNPACKED_ALWAYS, RATIO_MOST * self.path.stat().st_size)
            if unpacked > most:
                expected = f"at most {most} of such a file"
                raise InputError(f"becomes {unpacked} bytes", self.where(path), expected)
            return node[()]

    def has(self, path: str) -> bool:
        return self._at(path) is not None

    def names(self, group: str) -> list[str]:
        """What stands below a group, or nothing."""
        node = self._at(group)
        with self._reading(group):
            names = [str(name) for name in node] if isinstance(node, h5py.Group) else []
        for name in names:
            if visible(name) != name:
                raise InputError(f"has the name {visible(name)}", self.where(group), "names without controls")
        return names

    def is_array(self, path: str) -> bool:
        return isinstance(self._at(path), h5py.Dataset)

    def where(self, path: str) -> str:
        return f"{self.path}:{path}"

    def attributes(self, path: str) -> dict[str, Any]:
        """The attributes of a group or data set: texts as str, everything else as it is stored."""
        node = self._at(path)
        if path not in self._attributes:
            attributes = {}
            with self._reading(path):
                stored = dict(node.attrs) if node is not None else {}
            for name, value in stored.items():
                kind = getattr(value, "dtype", np.dtype(float)).kind
                textual = isinstance(value, bytes | str) or kind in "OSU"
                attributes[str(name)] = label(value) if textual else value
            self._attributes[path] = attributes
        return dict(self._attributes[path])

    def attribute(self, path: str, name: str, expected: str) -> Any:
        attributes = self.attributes(path)
        if name not in attributes:
            raise InputError(f"attribute {name} is missing", self.where(path), expected)
        return attributes[name]

    def _node(self, path: str) -> h5py.Dataset:
        node = self._at(path)
        if node is None:
            raise InputError("is missing", self.where(path), "a data set")
        if not isinstance(node, h5py.Dataset):
            raise InputError("is a group", self.where(path), "a data set")
        return node

    def shape(self, path: str) -> tuple[int, ...]:
        return tuple(self._node(path).shape)

    def labels(self, path: str) -> list[str]:
        """The names of the dimensions, empty where the file gives none."""
        with self._reading(path):
            return [str(dimension.label) for dimension in self._node(path).dims]

    def table(self, path: str) -> Any:
        """A data set of text or of compounds."""
        return self._values(path)

    def array(self, path: str, shape: Shape) -> Array:
        """The numbers as they are stored, once their shape is right."""
        node = self._node(path)
        fits = len(node.shape) == len(shape) and all(
            want in (None, have) for want, have in zip(shape, node.shape, strict=True)
        )
        if not fits:
            wanted = "[" + ", ".join("any" if want is None else str(want) for want in shape) + "]"
            raise InputError(f"has shape {list(node.shape)}", self.where(path), f"shape {wanted}")
        if node.dtype.kind not in "biuf":
            raise InputError(f"holds {node.dtype}", self.where(path), "numbers")
        return np.asarray(self._values(path))

    def increasing(self, path: str, least: int) -> Array:
        values = self.array(path, (None,))
        if len(values) < least or not np.isfinite(values).all() or np.any(np.diff(values) <= 0):
            raise InputError("is not increasing", self.where(path), f"at least {least} values")
        return values
