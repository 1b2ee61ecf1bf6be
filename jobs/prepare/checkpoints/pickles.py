# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Tensors out of PyTorch's zip checkpoints, whose code is never run.

A whole pickled module names classes of the program that wrote it, and unpickling would call them. Here its pickle is
read as data (opcodes.py): tensors are made, every other object is an inert container that keeps its state, and the
module's tree is then walked by hand. Neither open_clip nor the writer's program need be installed.
"""

import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from checkpoints import opcodes
from checkpoints.archive import Archive, tensor
from checkpoints.opcodes import Inert, Name
from errors import NAME_LONGEST, InputError, shown
from walk import regular

NAMES_MOST = 100_000  # parts of a module
DEPTH_MOST = 64  # of modules in modules
TENSORS_MOST = 2  # times the bytes of all records: tied weights stand in two places
TENSOR = {Name("torch._utils", "_rebuild_tensor"), Name("torch._utils", "_rebuild_tensor_v2")}
# A parameter is its tensor: what else hangs on it is of no use here.
PARAMETER = {Name("torch._utils", "_rebuild_parameter"), Name("torch._utils", "_rebuild_parameter_with_state")}
SUBCLASS = Name("torch._tensor", "_rebuild_from_type_v2")
ORDERED = Name("collections", "OrderedDict")
SIZE = Name("torch", "Size")
# What may stand beside the tensors of a plain state dict; inert all the same.
PLAIN = {Name("torch", "device"), Name("collections", "Counter"), Name("_codecs", "encode")} | {
    Name(module, kind) for module in ("builtins", "__builtin__") for kind in ("set", "bytearray", "complex")
}
DAMAGED = (  # what zipfile, pickletools and torch raise on bytes that are none of theirs
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    OverflowError,
    EOFError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
)


class MoreThanTensors(Exception):
    """The pickle calls what no state dict needs."""


def listed(value: Any) -> list[Any]:
    """Refuses what else can be iterated over: a tensor would become an object an element."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"a {type(value).__name__} where a list was expected")
    return list(value)


class Maker:
    """What a call in the pickle makes. Without `trust` only what a state dict needs."""

    def __init__(self, trust: bool) -> None:
        self.trust = trust

    def __call__(self, name: Name, arguments: tuple[Any, ...]) -> Any:
        if name in TENSOR:
            return tensor(arguments)
        if name in PARAMETER:
            return arguments[0]
        if name == SUBCLASS:
            function, _kind, inner = arguments[:3]
            if not isinstance(function, Name) or function == SUBCLASS or not isinstance(inner, tuple):
                raise ValueError("a tensor of a kind that rebuilds itself")
            return self(function, inner)
        if name == SIZE:
            return tuple(listed(arguments[0]))
        if name == ORDERED:
            ordered: dict[Any, Any] = {}
            for pair in listed(arguments[0]) if arguments else ():
                opcodes.set_items(ordered, listed(pair))
            return ordered
        if not self.trust and name not in PLAIN:
            raise MoreThanTensors
        return Inert(name.origin)


@dataclass
class Contents:
    """Named tensors in the module's own order. From a whole module: its objects by path too ("" is the module)."""

    tensors: dict[str, Tensor]
    objects: dict[str, Inert] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)


def checked(name: Any) -> str:
    """A name that may stand in a line of output and in a file's header."""
    if not isinstance(name, str) or not name.isprintable() or len(name) > NAME_LONGEST:
        raise ValueError(f"the name {shown(name) if isinstance(name, str) else 'of a part is no text'}")
    return name


def walk(module: Inert) -> Iterator[tuple[str, Any]]:
    """(path, object) as torch's state_dict() orders them: own parameters, own buffers, then the children."""
    left = NAMES_MOST  # a few parts that hold each other make endlessly many paths

    def below(module: Inert, path: str, depth: int) -> Iterator[tuple[str, Any]]:
        nonlocal left
        yield path, module
        for kind in ("_parameters", "_buffers", "_modules"):
            inside = module.state.get(kind)
            for name, value in inside.items() if isinstance(inside, dict) else ():
                left -= 1
                if left < 0 or depth > DEPTH_MOST:
                    raise ValueError(f"a module of more than {NAMES_MOST} parts, or more than {DEPTH_MOST} deep")
                if isinstance(value, Tensor | Inert):
                    where = checked(f"{path}.{name}" if path else name)
                    if isinstance(value, Tensor):
                        yield where, value
                    else:
                        yield from below(value, where, depth + 1)

    return below(module, "", 1)


def contents(held: Any) -> Contents | None:
    """Returns what a state dict, one under the name state_dict, or a module holds; None for anything else."""
    if isinstance(held, dict) and isinstance(held.get("state_dict"), dict):
        held = held["state_dict"]
    if isinstance(held, Inert):
        parts = list(walk(held))
        return Contents(
            {name: value for name, value in parts if isinstance(value, Tensor)},
            {name: value for name, value in parts if isinstance(value, Inert)},
        )
    if isinstance(held, dict):
        return Contents(
            {checked(name): value for name, value in held.items() if isinstance(value, Tensor)},
            words={checked(name): checked(value) for name, value in held.items() if isinstance(value, str)},
        )
    return None


def read(path: Path, trust_pickle: bool) -> Contents:
    """The tensors of a state dict, or, with `trust_pickle`, of a whole pickled module."""
    regular(path, "a PyTorch file")
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
        if start != b"PK\3\4":
            raise InputError(
                f"{path}: no zip file, which torch.save writes since PyTorch 1.6; expected a whole zip checkpoint (an "
                "older one is written anew where it is trusted: torch.save(torch.load(FILE), FILE))"
            )
        archive = Archive(path)
        with archive.zip:
            held = opcodes.load(archive.pickled(), Maker(trust_pickle), archive.persistent)
        model = contents(held)
        if model is not None:
            size = sum(each.numel() * each.itemsize for each in model.tensors.values())
            if size > TENSORS_MOST * archive.bytes:
                raise ValueError(f"tensors of {size} bytes out of records of {archive.bytes}")
            return model
    except MoreThanTensors:
        raise InputError(
            f"{path}: more than tensors is pickled in it; expected a state dict, or --trust-pickle, which "
            "takes the tensors out of a pickled model and runs nothing of it"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; expected a PyTorch file") from None
    except DAMAGED as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: {shown(reason)}; expected a whole PyTorch checkpoint") from None
    raise InputError(f"{path}: holds a {type(held).__name__}; expected a state dict or a pickled model")
