# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Tensors out of pickled PyTorch files, whose code is never run.

A whole pickled module names classes of the program that wrote it, and unpickling would call them. Here every name but
those that rebuild a tensor becomes an inert container that keeps its state; the module's tree is then walked by hand.
Neither open_clip nor the writer's program need be installed, and a file made to do harm does none.
"""

import pickle
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from errors import InputError


class Inert:
    """Stands for an object of an unknown class: takes anything, does nothing, keeps the state."""

    origin = ""
    dump_patches = False  # torch asks for it in files older than 1.6, to compare sources

    def __new__(cls, *_args: Any, **_named: Any) -> "Inert":
        made = super().__new__(cls)
        made.state = {}
        return made

    def __init__(self, *_args: Any, **_named: Any) -> None:
        self.state: dict[Any, Any]

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.state.update(part)

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        pass

    def extend(self, values: Any) -> None:
        pass


@cache
def inert(origin: str) -> type[Inert]:
    return type("Inert", (Inert,), {"origin": origin})


def first(value: Any, *_others: Any) -> Any:
    return value


def rebuild(function: Any, _kind: Any, arguments: Any, _state: Any) -> Any:
    return function(*arguments)


HARMLESS: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): torch.Size,
    ("torch._utils", "_rebuild_tensor"): torch._utils._rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
    # A parameter is its tensor: what else hangs on it is of no use here.
    ("torch._utils", "_rebuild_parameter"): first,
    ("torch._utils", "_rebuild_parameter_with_state"): first,
    ("torch._tensor", "_rebuild_from_type_v2"): rebuild,
}


class Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in HARMLESS:
            return HARMLESS[module, name]
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        return inert(f"{module}.{name}")


# torch.load asks for a module with these two names, and sees to the storages itself.
RESTRICTED = SimpleNamespace(
    __name__="pickles", Unpickler=Unpickler, load=lambda file, **named: Unpickler(file, **named).load()
)


@dataclass
class Contents:
    """Named tensors in the module's own order. From a whole module: its objects by path too ("" is the module)."""

    tensors: dict[str, Tensor]
    objects: dict[str, Inert] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)


def walk(module: Inert, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, object) as torch's state_dict() orders them: own parameters, own buffers, then the children."""
    yield path, module
    for kind in ("_parameters", "_buffers", "_modules"):
        inside = module.state.get(kind)
        for name, value in inside.items() if isinstance(inside, Mapping) else ():
            where = f"{path}.{name}" if path else str(name)
            if isinstance(value, Tensor):
                yield where, value
            elif isinstance(value, Inert):
                yield from walk(value, where)


def read(path: Path, trust_pickle: bool) -> Contents:
    """The tensors of a state dict, or, with `trust_pickle`, of a whole pickled module."""
    try:
        try:
            held = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            if not trust_pickle:
                raise InputError(
                    f"{path}: more than tensors is pickled in it; expected a state dict, or --trust-pickle, which "
                    "takes the tensors out of a pickled model and runs nothing of it"
                ) from None
            with warnings.catch_warnings(action="ignore"):  # that sources have changed
                held = torch.load(path, map_location="cpu", pickle_module=RESTRICTED, weights_only=False)
        if isinstance(held, Mapping) and isinstance(held.get("state_dict"), Mapping):
            held = held["state_dict"]
        if isinstance(held, Mapping):
            return Contents(
                {str(name): value for name, value in held.items() if isinstance(value, Tensor)},
                words={str(name): value for name, value in held.items() if isinstance(value, str)},
            )
        if isinstance(held, Inert):
            found = list(walk(held))
            return Contents(
                {name: value for name, value in found if isinstance(value, Tensor)},
                {name: value for name, value in found if isinstance(value, Inert)},
            )
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; expected a PyTorch file") from None
    except Exception as error:  # a damaged file makes torch raise nearly anything
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: {reason}; expected a whole PyTorch file") from None
    raise InputError(f"{path}: holds a {type(held).__name__}; expected a state dict or a pickled model")
