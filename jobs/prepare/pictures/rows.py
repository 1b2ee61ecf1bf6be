# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the field's data sets have in common: rows that are not read yet, class folders, arrays of digits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

import walk
from errors import InputError
from formats import read_idx, unpacked_most

SUFFIXES = {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}
DIGITS = [str(digit) for digit in range(10)]
MAT_BYTES = {"int8": 1, "uint8": 1, "char": 2, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "single": 4}


@dataclass
class Stored:
    """Rows of a data set of pictures in an HDF5 file, too many for memory: read a block at a time."""

    path: Path
    data: h5py.Dataset
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, block: slice) -> list[NDArray[np.uint8]]:
        try:
            return [self.data[int(row)] for row in self.rows[block]]
        except OSError as error:
            raise InputError(f"{self.path}: {error}; expected a whole HDF5 file") from None

    def take(self, rows: NDArray[np.int64]) -> "Stored":
        return Stored(self.path, self.data, self.rows[rows])


@dataclass
class Rows:
    """Pictures not read yet: a file a row (text: a Path takes four times the memory), or uint8 [n,h,w] or [n,h,w,3]."""

    items: "Sequence[str] | NDArray[np.uint8] | Stored"
    labels: NDArray[np.int64]
    left_out: walk.LeftOut = field(default_factory=walk.LeftOut)  # of the folders that the files come from

    def take(self, rows: NDArray[np.int64]) -> "Rows":
        if isinstance(self.items, Stored):
            return Rows(self.items.take(rows), self.labels[rows])
        items = self.items[rows] if isinstance(self.items, np.ndarray) else [self.items[row] for row in rows]
        return Rows(items, self.labels[rows])


@dataclass
class Layout:
    """Splits as the data set itself has them; those that it lacks are drawn later. Of train, at most `train_most`."""

    class_names: list[str]
    splits: dict[str, Rows]
    split_rule: str = "the set's own; validation min(10 %, 5000) of train by seed 0 unless the set has one"
    train_most: int | None = None


def need(path: Path, what: str) -> Path:
    if not path.exists():
        raise InputError(f"{path}: not found; expected {what}")
    return path


def folder_rows(root: Path, classes: Sequence[str], suffixes: set[str] = SUFFIXES) -> Rows:
    paths: list[str] = []
    labels: list[int] = []
    _, beside, left_out = walk.held(root)
    left_out += walk.LeftOut({walk.OTHER: len(beside)})
    for label, name in enumerate(classes):
        inside, left_out_inside = walk.files(root / name, suffixes)
        if not inside:
            raise InputError(f"{root / name}: no pictures; expected {', '.join(sorted(suffixes))}")
        paths += inside
        labels += [label] * len(inside)
        left_out += left_out_inside
    return Rows(paths, np.array(labels, np.int64), left_out)


def split_folders(root: Path, folders: dict[str, str]) -> tuple[list[str], dict[str, Rows]]:
    """The same classes in each split's folder, or the labels would not mean the same."""
    classes = walk.classes(root / folders["train"])
    rows = {}
    for split, folder in folders.items():
        here = walk.classes(root / folder)
        if here != classes:
            odd = sorted(set(here) ^ set(classes))[0]
            raise InputError(
                f"{root / folder}: {odd} is not in both {folder} and {folders['train']}; expected the same classes"
            )
        rows[split] = folder_rows(root / folder, classes)
    return classes, rows


def spaced(names: Sequence[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]


def read_mat(path: Path, names: Sequence[str], squeeze: bool) -> list[NDArray[Any]]:
    from scipy.io import loadmat, whosmat

    walk.regular(path, "a MATLAB file")
    try:
        most = unpacked_most(path)
        for name, shape, kind in whosmat(path):
            if name in names and math.prod(shape) * MAT_BYTES.get(kind, 8) > most:
                raise ValueError(f"variable {name} of {kind} has shape {list(shape)}, more than {most} bytes")
        table = loadmat(path, squeeze_me=squeeze, variable_names=list(names))
    except Exception as error:  # a damaged file makes SciPy raise nearly anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: {reason}; expected a MATLAB file before version 7.3") from None
    for name in names:
        if name not in table:
            raise InputError(f"{path}: no variable {name}; expected {', '.join(names)}")
    return [np.asarray(table[name]) for name in names]


def checked(
    images: NDArray[Any], labels: NDArray[Any], where: Path, dimensions: tuple[int, ...], classes: int = 10
) -> Rows:
    """Arrays of pictures, refused unless they have as many labels below `classes`."""
    if images.dtype != np.uint8 or images.ndim not in dimensions or 0 in images.shape:
        raise InputError(f"{where}: {images.dtype} {list(images.shape)}; expected uint8 pictures")
    if labels.shape != images.shape[:1] or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= classes:
        raise InputError(f"{where}: labels {labels.dtype} {list(labels.shape)}; expected {len(images)} below {classes}")
    return Rows(images, labels.astype(np.int64))


def idx_splits(base: Path, prefixes: dict[str, str]) -> dict[str, Rows]:
    """Splits in IDX files as MNIST's, plain or gzip."""

    def part(prefix: str) -> Rows:
        arrays = []
        for name in (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"):
            arrays.append(read_idx(base / name if (base / name).exists() else base / f"{name}.gz"))
        images, labels = arrays
        return checked(images, labels, base / f"{prefix}-images-idx3-ubyte", (3,))

    return {split: part(prefix) for split, prefix in prefixes.items()}
