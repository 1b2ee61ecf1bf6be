# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Small checkpoints, damaged by a seeded dice, through the reader of checkpoints. A million of them by hand:

  .venv/bin/python tests/prepare/checkpoints/pickle_fuzz.py 1000000 [SEED]

Each gives tensors that the file has the bytes for, or one line that can be shown; and nothing but that file is opened.
"""

import codecs
import io
import itertools
import pickle
import pickletools
import random
import resource
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "jobs/prepare"))

from checkpoints import pickles
from errors import InputError

SECONDS_MOST = 5.0  # for one input, on a machine that does other things too
MEMORY_MOST = 512 << 10  # KiB that all inputs together may add to what the process needs
ROOT = "archive"
SEES = {"open", "import", "exec", "compile", "pickle.find_class"}  # and every event with a dot, but for the harmless
CODECS = ("cp437", "raw_unicode_escape", "unicode_escape", "latin-1", "ascii")  # zipfile's and pickletools'
HARMLESS = ("object.", "gc.", "sys._getframe", "array.", "time.")
NUMBERS = (0, 1, 2, 3, 7, 255, 256, 65535, 1 << 31, (1 << 31) - 1, 1 << 40, 1 << 62, -1, -(1 << 31))
LONG = b"\x8a\x09" + b"\xff" * 8 + b"\x7f"  # an integer of 72 bits
TREASURES = [  # pieces of pickles that an attacker would use
    b"cos\nsystem\n",
    b"cbuiltins\nexec\n",
    b"ctorch._utils\n_rebuild_parameter\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch\nSize\n",
    b"ccollections\nOrderedDict\n",
    b"ctorch\nFloatStorage\n",
    b"X\x06\x00\x00\x00module",
    b"X\x07\x00\x00\x00storage",
    b"X\x0b\x00\x00\x00_parameters",
    b"X\x08\x00\x00\x00_modules",
    b"X\x0a\x00\x00\x00state_dict",
    b"X\x03\x00\x00\x00a\nb",
    b"X\x03\x00\x00\x00\xed\xa0\x80",  # half a surrogate pair
    b"N}q\x00b",
    b"\x85R",
    b"\x86b",
    b")R",
    b")\x81",
    b"}b",
    b"Q",
    b"2",
    b"\x85" * 200,
    b"](" * 50,
    b"r\xff\xff\xff\x7f",
    b"j\xff\xff\xff\x7f",
    b"T\xff\xff\xff\x7f",
    b"X\xff\xff\xff\xff",
    b"\x8e" + b"\xff" * 8,
    b"\x96" + b"\xff" * 7 + b"\x7f",
    b"\x95" + b"\xff" * 8,
    b"\x8b\xff\xff\xff\x7f",
    LONG,
    b"\x97",
    b"\x98",
    b"\x82\x01",
    b"I" + b"9" * 5000 + b"\n",
    b"P0\n",
    b"(ios\nsystem\n",
    b"(o",
]

Seed = dict[str, bytes]  # the records below the archive's folder


def saved(held: Any, protocol: int = 2) -> Seed:
    stream = io.BytesIO()
    torch.save(held, stream, pickle_protocol=protocol)
    with zipfile.ZipFile(stream) as archive:
        return {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}


def seeds() -> list[Seed]:
    torch.manual_seed(0)
    base = torch.arange(12.0)
    state = {"a": base, "b": base[2:8].view(2, 3), "c": torch.ones(2, dtype=torch.half), "d": torch.tensor(3)}
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    module.note, module.tied = "text", module[0].weight
    linear = {"model.params.0": base[:3], "model.params0.0": base[3:6], "model_name": "ViT-B-32"}
    empty = {"e": torch.empty(0, 512), "f": torch.tensor([True, False]), "g": torch.ones(3, 2).t()}
    held = [state, {"state_dict": state, "epoch": 3}, module, linear, empty, {"p": nn.Parameter(base[:2])}]
    return [saved(each, protocol) for each in held for protocol in (2, 5)]


def written(records: Seed, dice: random.Random, plain: bool) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in records.items():
            pressed = not plain and dice.random() < 0.1
            archive.writestr(
                zipfile.ZipInfo(f"{ROOT}/{name}"), data, zipfile.ZIP_DEFLATED if pressed else zipfile.ZIP_STORED
            )
    return stream.getvalue()


def bytes_changed(data: bytes, dice: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4, 16))):
        at = dice.randrange(len(out) + 1)
        kind = dice.randrange(4)
        if kind == 0 and at < len(out):
            out[at] = dice.randrange(256)
        elif kind == 1:
            out[at:at] = dice.randbytes(dice.choice((1, 1, 4)))
        elif kind == 2:
            del out[at : at + dice.choice((1, 1, 2, 8, 64))]
        elif at < len(out):
            out[at] ^= 1 << dice.randrange(8)
    return bytes(out)


def operations(pickled: bytes) -> list[bytes]:
    """The pickle cut before each of its operations."""
    starts = [at for _, _, at in pickletools.genops(pickled) if at is not None] + [len(pickled)]
    return [pickled[a:b] for a, b in itertools.pairwise(starts)]


def operations_changed(pickled: bytes, dice: random.Random) -> bytes:
    cut = operations(pickled)
    for _ in range(dice.choice((1, 1, 2, 3, 8))):
        at, other = dice.randrange(len(cut)), dice.randrange(len(cut))
        kind = dice.randrange(6)
        if kind == 0:
            cut[at] = cut[other]
        elif kind == 1:
            cut.insert(at, cut[other])
        elif kind == 2 and len(cut) > 2:
            del cut[at]
        elif kind == 3:
            cut[at], cut[other] = cut[other], cut[at]
        elif kind == 4:
            cut.insert(at, dice.choice(TREASURES))
        elif cut[at][:1] in (b"K", b"M", b"J", b"\x8a"):  # a number
            cut[at] = pickle.dumps(dice.choice(NUMBERS), 2)[2:-1]
    return b"".join(cut)


def mutated(records: Seed, dice: random.Random) -> bytes:
    """A whole file, wrong in its pickle most of the time, else in its records or anywhere."""
    records = dict(records)
    kind = dice.random()
    if kind < 0.55:
        records["data.pkl"] = operations_changed(records["data.pkl"], dice)
    elif kind < 0.8:
        records["data.pkl"] = bytes_changed(records["data.pkl"], dice)
    elif kind < 0.9:
        name = dice.choice(list(records))
        data = records.pop(name)
        for _ in range(dice.choice((0, 1, 2))):
            other = dice.choice((name, name + "x", "constants.pkl", "sub/data.pkl", "data/0"))
            records[other] = bytes_changed(data, dice)
    data = written(records, dice, plain=kind < 0.8)
    return bytes_changed(data, dice) if kind >= 0.9 else data


class Watch:
    """Notes what Python's own audit sees while a file is read, but for the opening of that file."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.seen: list[str] = []
        sys.addaudithook(self.hook)  # for good: Python takes none away

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.path is None or event.startswith(HARMLESS) or ("." not in event and event not in SEES):
            return
        allowed = event == "open" and str(arguments[0]) == self.path and arguments[1] in ("r", "rb")
        if not allowed:
            self.seen.append(f"{event} {arguments!r}"[:200])

    @contextmanager
    def over(self, path: Path) -> Iterator[None]:
        self.path = str(path)
        try:
            yield
        finally:
            self.path = None


def try_one(data: bytes, path: Path, trust: bool, watch: Watch) -> bool:
    """Whether the file was read; an AssertionError where a promise is broken."""
    path.write_bytes(data)
    watch.seen.clear()
    begin = time.monotonic()
    try:
        with watch.over(path):
            contents = pickles.read(path, trust)
    except InputError as error:
        line = str(error)
        assert line.isprintable() and "expected" in line and len(line) < 2000, line
        contents = None
    assert not watch.seen, watch.seen
    assert time.monotonic() - begin < SECONDS_MOST, "too slow"
    if contents is None:
        return False
    size = sum(each.numel() * each.itemsize for each in contents.tensors.values())
    assert size <= 2 * len(data), f"{size} bytes of tensors out of {len(data)}"
    for name, tensor in contents.tensors.items():
        assert name.isprintable()
        tensor.clone()  # every element can be reached
    return True


def fuzz(count: int, seed: int, folder: Path) -> tuple[int, int]:
    """Tries `count` inputs; (how many, how many of them were read). A broken promise leaves its file in `folder`."""
    dice, watch, path = random.Random(seed), Watch(), folder / "fuzzed.pt"
    started = seeds()
    for codec in CODECS:
        codecs.lookup(codec)
    for records in started:
        path.write_bytes(written(records, dice, plain=True))
        pickles.read(path, True)  # what Python imports when it is first needed is imported now
        assert try_one(written(records, dice, plain=True), path, True, watch)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = 0
    for number in range(count):
        data = mutated(dice.choice(started), dice)
        try:
            read += try_one(data, path, dice.random() < 0.7, watch)
        except BaseException:
            (folder / f"fuzzed-{seed}-{number}.pt").write_bytes(data)
            print(f"input {number} of seed {seed}: {folder / f'fuzzed-{seed}-{number}.pt'}", file=sys.stderr)
            raise
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MEMORY_MOST, f"{grown} KiB more memory"
    return count, read


if __name__ == "__main__":
    tried, read_whole = fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1, Path(tempfile.mkdtemp()))
    print(f"{tried} inputs, {read_whole} read, all others refused in one line")
