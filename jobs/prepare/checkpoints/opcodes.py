# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A pickle as data: its operations are carried out on plain values, and what it would call is written down instead.

Python's own unpickler calls what a file names, and changes live objects by the file's word. Here a name is a `Name`, a
call of it is an `Inert` that keeps the object's state, and nothing else exists that a file could reach. What a caller
wants to be made for real, tensors for example, its `make` makes.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

OPERATIONS_MOST = 1_000_000  # a pickled ViT-L takes some 30,000
WHOLE = 1 << 63  # integers below it in size: no length or number of a checkpoint is longer
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": list}
NUMBERS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"}
TEXTS = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BINSTRING"}
LITERALS = NUMBERS | TEXTS | {"SHORT_BINSTRING"}
PUTS, GETS = {"BINPUT", "LONG_BINPUT"}, {"BINGET", "LONG_BINGET"}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class Name:
    """What a pickle imports: never looked up."""

    module: str
    name: str

    @property
    def origin(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class Inert:
    """Stands for an object of a class that is not looked up; keeps the state that the object would have got."""

    origin: str = ""
    state: dict[str, Any] = field(default_factory=dict)

    def build(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.state.update((key, value) for key, value in part.items() if isinstance(key, str))


Make = Callable[[Name, tuple[Any, ...]], Any]


def set_items(target: Any, flat: list[Any]) -> None:
    """Pairs into a dictionary. Keys of other kinds than text and numbers are of no use here, and some cannot be hashed
    without danger."""
    if len(flat) % 2:
        raise ValueError("an item without a value")
    if isinstance(target, dict):
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if isinstance(key, str | int | float):
                target[key] = value
    elif not isinstance(target, Inert):
        raise ValueError(f"items set in a {type(target).__name__}")


def append_items(target: Any, values: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(values)
    elif not isinstance(target, Inert):
        raise ValueError(f"items appended to a {type(target).__name__}")


class Machine:
    """The stack, the marked stacks below it, and the memo, as in Python's pickletools."""

    def __init__(self, make: Make, persistent: Callable[[Any], Any]) -> None:
        self.make, self.persistent = make, persistent
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def call(self, name: Any, arguments: Any) -> Any:
        if not isinstance(name, Name) or not isinstance(arguments, tuple):
            raise ValueError(f"a call of a {type(name).__name__}")
        return self.make(name, arguments)

    def step(self, operation: str, argument: Any) -> None:
        stack = self.stack
        if operation in LITERALS:
            if isinstance(argument, int) and not -WHOLE <= argument < WHOLE:
                raise ValueError("an integer of more than 64 bits")
            stack.append(argument)
        elif operation in PUTS:
            self.memo[argument] = stack[-1]
        elif operation == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif operation in GETS:
            stack.append(self.memo[argument])
        elif operation in CONSTANTS:
            stack.append(CONSTANTS[operation])
        elif operation in EMPTY:
            stack.append(EMPTY[operation]())
        elif operation == "MARK":
            self.below.append(stack)
            self.stack = []
        elif operation in TUPLES:
            count = TUPLES[operation]
            if len(stack) < count:
                raise IndexError("the stack is too short")
            stack[-count:] = [tuple(stack[-count:])]
        elif operation in ("TUPLE", "LIST", "FROZENSET"):
            items = self.since_mark()
            self.stack.append(tuple(items) if operation == "TUPLE" else items)
        elif operation == "DICT":
            flat = self.since_mark()
            self.stack.append({})
            set_items(self.stack[-1], flat)
        elif operation == "SETITEM":
            flat = [stack.pop(-2), stack.pop()]
            set_items(stack[-1], flat)
        elif operation == "SETITEMS":
            flat = self.since_mark()
            set_items(self.stack[-1], flat)
        elif operation == "APPEND":
            value = stack.pop()
            append_items(stack[-1], [value])
        elif operation in ("APPENDS", "ADDITEMS"):
            values = self.since_mark()
            append_items(self.stack[-1], values)
        elif operation == "GLOBAL":
            module, _, name = argument.partition(" ")
            stack.append(Name(module, name))
        elif operation == "STACK_GLOBAL":
            name, module = stack.pop(), stack.pop()
            if not isinstance(module, str) or not isinstance(name, str):
                raise ValueError("a name that is no text")
            stack.append(Name(module, name))
        elif operation in ("REDUCE", "NEWOBJ"):
            arguments, name = stack.pop(), stack.pop()
            stack.append(self.call(name, arguments))
        elif operation == "NEWOBJ_EX":
            _named, arguments, name = stack.pop(), stack.pop(), stack.pop()
            stack.append(self.call(name, arguments))
        elif operation == "BUILD":
            state = stack.pop()
            if isinstance(stack[-1], Inert):
                stack[-1].build(state)
        elif operation == "BINPERSID":
            stack.append(self.persistent(stack.pop()))
        elif operation == "POP":
            stack.pop()
        elif operation == "POP_MARK":
            self.since_mark()
        elif operation not in ("PROTO", "FRAME"):
            raise ValueError(f"pickle operation {operation}, which no checkpoint needs")


def load(pickled: bytes, make: Make, persistent: Callable[[Any], Any]) -> Any:
    """The value that the pickle describes. `make` gives what a call of a name makes, `persistent` what a persistent id
    stands for. A pickle that is no right one raises ValueError, IndexError, KeyError or TypeError."""
    machine = Machine(make, persistent)
    for number, (operation, argument, _) in enumerate(pickletools.genops(pickled)):
        if number >= OPERATIONS_MOST:
            raise ValueError(f"more than {OPERATIONS_MOST} pickle operations")
        if operation.name == "STOP":
            break
        machine.step(operation.name, argument)
    return machine.stack.pop()
