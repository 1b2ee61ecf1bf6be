# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints made to do harm, or that promise more than they hold; and right ones, against torch.load."""

import contextlib
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import pickle_fuzz
import pytest
import torch
from torch import nn

from checkpoints import pickles
from errors import InputError

FUZZED = 1500  # inputs, a few seconds


def text(word: str) -> bytes:
    data = word.encode("utf-8", "surrogatepass")
    return b"X" + len(data).to_bytes(4, "little") + data


def number(value: int) -> bytes:
    return pickle.dumps(value, 2)[2:-1]


def storage(count: int, key: str = "0", kind: str = "FloatStorage") -> bytes:
    return b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + text("cpu") + number(count) + b"tQ"


def tensor(sizes: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, held: bytes = storage(4)) -> bytes:
    shape, steps = (b"(" + b"".join(map(number, each)) + b"t" for each in (sizes, strides))
    hooks = b"\x89ccollections\nOrderedDict\n)R"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + held + number(offset) + shape + steps + hooks + b"tR"


def state(*items: bytes) -> bytes:
    """A pickled dictionary with the values named 0, 1, …"""
    inside = b"".join(text(str(place)) + item for place, item in enumerate(items))
    return b"\x80\x02}(" + inside + b"u."


def zipped(path: Path, pickled: bytes, compression: int = zipfile.ZIP_STORED, **more: bytes) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in {"data.pkl": pickled, "version": b"3\n", "data/0": bytes(16), **more}.items():
            archive.writestr(f"archive/{name}", data)
    return path


def refused(path: Path, trust: bool = True) -> str:
    with pytest.raises(InputError, match="expected") as caught:
        pickles.read(path, trust)
    line = str(caught.value)
    assert line.isprintable() and str(path) in line
    return line


def test_right_checkpoints_are_read_as_torch_reads_them(tmp_path):
    base = torch.randn(6, 4, dtype=torch.double)
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
    held = {str(kind): torch.randn(3, 2).abs().mul(9).to(kind) for kind in kinds}
    held |= {"part": base[1:5:2, 1:], "turned": base.T, "scalar": torch.tensor(2.5), "none": torch.empty(0, 7)}
    held |= {"parameter": nn.Parameter(base), "noted": nn.Parameter(base[0])}
    held["noted"].note = "extra"
    held["in order"] = torch.ones(1, 1, 5).expand(1, 1, 5)
    for protocol in (2, 4, 5):
        torch.save(OrderedDict(held), tmp_path / "a.pt", pickle_protocol=protocol)
        tensors = pickles.read(tmp_path / "a.pt", False).tensors
        expected = torch.load(tmp_path / "a.pt", weights_only=False)
        assert list(tensors) == list(expected) == list(held)
        for name, value in expected.items():
            assert torch.equal(tensors[name], value) and tensors[name].dtype == value.dtype, name
            assert tensors[name].stride() == value.stride(), name


def test_whole_modules_are_read_in_the_order_of_their_state(tmp_path):
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Sequential(nn.Embedding(4, 2)))
    module.register_buffer("own", torch.ones(2))
    module[2].again = module[0]
    torch.save(module, tmp_path / "a.pt")
    assert "--trust-pickle" in refused(tmp_path / "a.pt", trust=False)
    contents = pickles.read(tmp_path / "a.pt", True)
    expected = module.state_dict()
    assert list(contents.tensors) == list(expected)
    assert all(torch.equal(contents.tensors[name], value) for name, value in expected.items())
    norm = contents.objects["1"]
    assert norm.origin == "torch.nn.modules.batchnorm.BatchNorm1d" and norm.state["eps"]


def test_an_old_file_cannot_make_torch_write_one(tmp_path):
    """BUILD gives a live function a name and the wish for a patch; a persistent id "module" makes torch compare its
    source with the file's and write the difference to NAME.patch."""
    wish = b"}(" + text("dump_patches") + b"\x88" + text("__name__") + text(str(tmp_path / "harm")) + b"u"
    live = b"ctorch._utils\n_rebuild_parameter\nN" + wish + b"\x86b"
    module = b"(" + text("module") + live + text("source.py") + text("other source") + b"tQ"
    head = b"".join(pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    path = tmp_path / "zeroshot.pt"
    path.write_bytes(head + b"\x80\x02" + module + b"." + pickle.dumps([], 2))
    assert path.stat().st_size < 400
    assert "no zip file" in refused(path)
    assert "persistent id" in refused(zipped(path, b"\x80\x02" + module + b"."))
    assert not list(tmp_path.glob("*.patch"))


def test_what_a_file_changes_is_the_files_own(tmp_path):
    for names in (b"ccollections\nOrderedDict\n", b"ctorch._utils\n_rebuild_parameter\n", b"cpickles\nread\n"):
        change = names + b"N}(" + text("evil") + b"\x88u\x86b"
        zipped(tmp_path / "a.pt", state(tensor((4,), (1,)), change))
        assert list(pickles.read(tmp_path / "a.pt", True).tensors) == ["0"]
    assert not hasattr(OrderedDict, "evil") and not hasattr(torch._utils._rebuild_parameter, "evil")
    assert not hasattr(pickles.read, "evil")


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (tensor((1 << 38,), (0,)), "in a storage of 4"),
        (tensor((1000, 1000, 1000), (0, 0, 0)), "in a storage of 4"),
        (tensor((4,), (1,), offset=1), "the last at 4"),
        (tensor((2, 2), (3, 1)), "the last at 4"),
        (tensor((-1,), (1,)), "no lengths"),
        (tensor((2,), (-1,), offset=1), "no lengths"),
        (tensor((1 << 62, 0), (1, 1)), "no lengths"),
        (tensor((1,) * 17, (1,) * 17), "17 sizes"),
        (tensor((4,), (1, 1)), "1 sizes and 2 strides"),
        (tensor((4,), (1,), held=storage(5)), "said to hold others"),
        (tensor((4,), (1,), held=storage(4, "1")), "no record data/1"),
        (tensor((4,), (1,), held=storage(4, kind="QInt8Storage")), "unknown kind"),
        (tensor((4,), (1,)) + tensor((2,), (1,), held=storage(2, kind="DoubleStorage")) + b"0", "said to hold others"),
        (tensor((4,), (1,), held=b"N"), "without a storage"),
        (b"ctorch\nSize\n" + tensor((4,), (1,)) + b"\x85R", "a Tensor where a list"),
        (pickle_fuzz.LONG, "64 bits"),
        (b"2", "DUP"),
        (b"X\xff\xff\xff\x7f", "expected"),
    ],
)
def test_what_the_storage_does_not_hold_is_refused(item: bytes, words: str, tmp_path):
    assert words in refused(zipped(tmp_path / "a.pt", state(item)))


def test_tensors_of_stride_0_do_not_fill_memory(tmp_path, capsys):
    from command import main

    patches = text("visual.conv1.weight") + tensor((768, 3, 1 << 20, 1 << 20), (0,) * 4)  # 9 PB
    zipped(tmp_path / "zeroshot.pt", b"\x80\x02}" + patches + b"s.")
    assert main(["convert-checkpoints", "--from", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "zeroshot.pt: a tensor of" in said


def test_many_names_of_one_storage_are_not_many_tensors(tmp_path):
    whole = [tensor((4,), (1,))] * 3
    assert len(pickles.read(zipped(tmp_path / "a.pt", state(*whole[:2])), True).tensors) == 2
    few = zipped(
        tmp_path / "a.pt", state(*[tensor((1 << 18,), (1,), held=storage(1 << 18))] * 9), **{"data/0": bytes(1 << 20)}
    )
    assert "bytes out of records of" in refused(few)


def test_compressed_or_shared_records_are_refused(tmp_path):
    small = zipped(tmp_path / "a.pt", state(), zipfile.ZIP_DEFLATED, **{"data/0": bytes(1 << 22)})
    assert small.stat().st_size < 1 << 14 and "is compressed" in refused(small)
    path = zipped(tmp_path / "b.pt", state(tensor((4,), (1,))), **{"data/1": bytes(1 << 16)})
    raw = path.read_bytes()
    directory = raw.index(b"PK\1\2")
    entry = raw.index(b"PK\1\2", raw.index(b"archive/data/0", directory))
    end = raw.index(b"PK\5\6")
    shared = b"".join(raw[entry:end].replace(b"data/1", f"data/{each}".encode()) for each in "1234")
    tail = bytearray(raw[end:])
    tail[8:12] = (6).to_bytes(2, "little") * 2
    tail[12:16] = (entry - directory + len(shared)).to_bytes(4, "little")
    path.write_bytes(raw[:entry] + shared + tail)
    assert "in a file of" in refused(path)


def test_names_that_no_line_can_show_are_refused(tmp_path):
    for name in ("a\nprepare: all is well", "\ud800", "x" * 1000, "\x1b[2J"):
        path = zipped(tmp_path / "a.pt", b"\x80\x02}" + text(name) + tensor((4,), (1,)) + b"s.")
        assert "the name" in refused(path)


def test_modules_in_a_ring_or_a_thicket_are_refused(tmp_path):
    module = b"ctorch.nn\nModule\n)\x81"

    def held(inner: bytes) -> bytes:
        return module + b"}" + text("_modules") + b"}(" + inner + b"usb"

    ring = module + b"q\x00}" + text("_modules") + b"}" + text("a") + b"h\x00ssb"
    thicket, deep = module, module
    for level in range(40):
        thicket = held(text("a") + thicket + b"q" + bytes([level]) + text("b") + b"h" + bytes([level]))
    for _ in range(100):
        deep = held(text("a") + deep)
    for each in (ring, thicket, deep):
        assert "parts" in refused(zipped(tmp_path / "a.pt", b"\x80\x02" + each + b"."))


@pytest.mark.parametrize("piece", [b"\x85", b"](", b"}(", b"N\x86", b")\x81}b"])
def test_deep_nests_are_no_crash(piece: bytes, tmp_path):
    """Nests stand as a value, as a key, and as what is built. Each level would be a call in C."""
    nest = piece * 200_000
    for pickled in (b")" + nest, b"})" + nest + b"Ns", b"ca\nb\n)\x81)" + nest + b"b"):
        path = zipped(tmp_path / "a.pt", b"\x80\x02" + pickled + b".")
        with contextlib.suppress(InputError):
            assert not pickles.read(path, True).tensors


def test_endless_pickles_are_refused(tmp_path):
    assert "pickle operations" in refused(zipped(tmp_path / "a.pt", b"\x80\x02" + b"N" * 1_100_000 + b"."))
    assert "more than 16777216" in refused(zipped(tmp_path / "a.pt", bytes((16 << 20) + 1)))


def test_damaged_files_drawn_at_random(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    tried, read = pickle_fuzz.fuzz(FUZZED, seed=1, folder=tmp_path / "in")
    assert FUZZED // 20 < read < tried
    assert os.listdir(tmp_path) == ["in"] and os.listdir(tmp_path / "in") == ["fuzzed.pt"]
