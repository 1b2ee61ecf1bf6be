# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""CIFAR's pickled batches, whose code is never run.

A batch is a dictionary with an array of pictures and a list of labels, pickled by Python 2. Its pickle is read as data
(opcodes.py): of all that it may call, NumPy's array alone is made, from its own shape and bytes.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoints import opcodes
from checkpoints.opcodes import Inert, Name
from checkpoints.pickles import DAMAGED
from errors import InputError, shown

SIDE = 32
BYTES_MOST = 512 << 20  # of a file; CIFAR-100's training part has 155 MB
CORES = ("numpy.core.multiarray", "numpy._core.multiarray")  # before and since NumPy 2
ARRAYS = {Name(core, "_reconstruct") for core in CORES}
KIND = Name("numpy", "dtype")
ENCODE = Name("_codecs", "encode")  # how Python 3 pickles bytes for Python 2
BYTES = {"u1", "|u1", "uint8", "B"}


@dataclass(eq=False)
class Kind(Inert):
    """NumPy's type of numbers, by its name."""

    name: str = ""


@dataclass(eq=False)
class Array(Inert):
    """NumPy's array: its shape and bytes, if it is one of bytes."""

    values: NDArray[np.uint8] | None = None

    def build(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("an array that is not built of five parts")
        _version, shape, kind, fortran, data = state
        if not isinstance(kind, Kind) or kind.name not in BYTES or fortran is not False:
            raise ValueError("an array of other numbers than bytes in rows")
        if isinstance(data, str):  # Python 2's text is bytes
            data = data.encode("latin-1")
        if not isinstance(shape, tuple) or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("an array without lengths")
        if not isinstance(data, bytes) or int(np.prod(shape, dtype=object)) != len(data):
            raise ValueError(f"an array of {list(shape)} without as many bytes")
        self.values = np.frombuffer(data, np.uint8).reshape(shape)


def make(name: Name, arguments: tuple[Any, ...]) -> Any:
    if name in ARRAYS:
        return Array(name.origin)
    if name == KIND and arguments and isinstance(arguments[0], str):
        return Kind(name.origin, {}, arguments[0])
    if name == ENCODE and len(arguments) == 2 and isinstance(arguments[0], str) and arguments[1] == "latin1":
        return arguments[0].encode("latin-1")
    return Inert(name.origin)


def persistent(_: Any) -> Any:
    raise ValueError("a persistent id, which no batch has")


def load(path: Path) -> dict[str, Any]:
    """The dictionary of a batch or of its names; keys are text, as Python 2 has them."""
    try:
        if path.stat().st_size > BYTES_MOST:
            raise ValueError(f"{path.stat().st_size} bytes, more than {BYTES_MOST}")
        held = opcodes.load(path.read_bytes(), make, persistent)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; expected one of CIFAR's pickled files") from None
    except DAMAGED as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: {shown(reason)}; expected one of CIFAR's pickled files") from None
    if not isinstance(held, dict):
        raise InputError(f"{path}: holds a {type(held).__name__}; expected one of CIFAR's pickled dictionaries")
    return held


def batch(path: Path, labels: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pictures [n,32,32,3] and their labels [n], which stand under the key `labels`."""
    held = load(path)
    data, numbers = held.get("data"), held.get(labels)
    if not isinstance(data, Array) or data.values is None or data.values.ndim != 2:
        raise InputError(f"{path}: no array data; expected pictures of {SIDE} by {SIDE}")
    if data.values.shape[1] != 3 * SIDE * SIDE:
        raise InputError(f"{path}: rows of {data.values.shape[1]} numbers; expected {3 * SIDE * SIDE}")
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise InputError(f"{path}: no list {labels}; expected a whole number a picture")
    pictures = data.values.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return pictures, np.array(numbers, np.int64)


def names(path: Path, key: str) -> list[str]:
    """Returns the classes' names in the order of their labels."""
    listed = load(path).get(key)
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise InputError(f"{path}: no list {key}; expected the classes' names")
    return listed
