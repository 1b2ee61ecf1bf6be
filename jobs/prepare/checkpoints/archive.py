# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's zip checkpoint: its records, and tensors as views of them. No size, offset or name is believed before it is
held against what the file has."""

import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from checkpoints.opcodes import Name
from errors import shown

PICKLE_MOST = 16 << 20  # bytes of data.pkl: a whole pickled ViT-L has 0.2 MiB
DIMENSIONS_MOST = 16
SIDE_MOST = 1 << 40  # of a tensor's dimension, and of a stride
STORAGES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}


@dataclass(frozen=True)
class Storage:
    """All numbers of a record, in one row."""

    values: Tensor


class Archive:
    """A zip file as torch.save writes it: records below one folder, none of them compressed, so that together they
    take no more bytes than the file has. What is none raises ValueError, zipfile's errors or RuntimeError."""

    def __init__(self, path: Path) -> None:
        self.zip = zipfile.ZipFile(path)
        infos = self.zip.infolist()
        self.records = {info.filename: info for info in infos}
        if len(self.records) != len(infos):
            raise ValueError("two records of one name")
        roots = [name.removesuffix("/data.pkl") for name in self.records if name.endswith("/data.pkl")]
        if len(roots) != 1:
            raise ValueError(f"{len(roots)} records data.pkl where a checkpoint has one")
        self.root = roots[0]
        if self.has("constants.pkl"):
            raise ValueError("a TorchScript archive")
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise ValueError(f"record {shown(info.filename)} is compressed, as torch.save leaves none")
        self.bytes = sum(info.file_size for info in infos)
        if self.bytes > path.stat().st_size:
            raise ValueError(f"records of {self.bytes} bytes in a file of {path.stat().st_size}")
        if self.has("byteorder") and self.get("byteorder") != b"little":
            raise ValueError("not written on a little-endian machine")
        self.storages: dict[str, Storage] = {}

    def has(self, name: str) -> bool:
        return f"{self.root}/{name}" in self.records

    def get(self, name: str) -> bytes:
        return self.zip.read(self.records[f"{self.root}/{name}"])

    def pickled(self) -> bytes:
        size = self.records[f"{self.root}/data.pkl"].file_size
        if size > PICKLE_MOST:
            raise ValueError(f"data.pkl has {size} bytes, more than {PICKLE_MOST}")
        return self.get("data.pkl")

    def persistent(self, identifier: Any) -> Storage:
        """("storage", its type, the record's key, the device it was on, its numbers). Other ids are refused."""
        if not isinstance(identifier, tuple) or len(identifier) != 5:
            raise ValueError("a persistent id that is no storage")
        of, kind, key, _location, count = identifier
        if not isinstance(of, str) or of != "storage":
            raise ValueError("a persistent id that is no storage")
        if not isinstance(kind, Name) or kind.name not in STORAGES or not isinstance(key, str):
            raise ValueError("a storage of an unknown kind")
        dtype, name = STORAGES[kind.name], f"data/{key}"
        if key not in self.storages:
            if not self.has(name):
                raise ValueError(f"no record {shown(name)}")
            held = bytearray(self.get(name))
            if len(held) % dtype.itemsize:
                raise ValueError(f"record {shown(name)} has {len(held)} bytes, no whole number of {dtype}")
            self.storages[key] = Storage(torch.frombuffer(held, dtype=dtype) if held else torch.empty(0, dtype=dtype))
        values = self.storages[key].values
        if type(count) is not int or count != len(values) or values.dtype != dtype:
            raise ValueError(f"record {shown(name)} holds {len(values)} of {values.dtype}, and is said to hold others")
        return self.storages[key]


def tensor(arguments: tuple[Any, ...]) -> Tensor:
    """A view of a storage: (storage, offset, sizes, strides, …). It has no more elements than the storage, and none
    outside."""
    storage, offset, sizes, strides = arguments[:4]
    if not isinstance(storage, Storage) or not isinstance(sizes, tuple) or not isinstance(strides, tuple):
        raise ValueError("a tensor without a storage or a shape")
    numbers = (offset, *sizes, *strides)
    if len(sizes) != len(strides) or len(sizes) > DIMENSIONS_MOST:
        raise ValueError(f"a tensor of {len(sizes)} sizes and {len(strides)} strides")
    if any(type(number) is not int or not 0 <= number <= SIDE_MOST for number in numbers):
        raise ValueError("a tensor whose offset, shape or strides are no lengths")
    if len(arguments) > 6 and arguments[6]:
        raise ValueError("a tensor that is conjugated or negated when it is read")
    held, count = len(storage.values), math.prod(sizes)
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if count > held or (count and last >= held):
        raise ValueError(f"a tensor of {count} elements, the last at {last}, in a storage of {held}")
    return storage.values.as_strided(sizes, strides, offset)
