# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Array files that promise more than they hold, or become far more than they are."""

import gzip
import io
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

import formats
from errors import InputError
from pictures import layouts


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits as they are, but for their size: a test need not write 256 MiB."""
    monkeypatch.setattr(formats, "UNPACKED_ALWAYS", 1 << 20)


def refused(path: Path, reader: object) -> str:
    with pytest.raises(InputError, match="expected") as caught:
        reader(path)  # type: ignore[operator]
    assert str(caught.value).isprintable() and str(path) in str(caught.value)
    return str(caught.value)


def test_a_small_npz_does_not_fill_memory(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, images=np.zeros((40, 256, 256), np.uint8), labels=np.zeros(40, np.int64))
    assert path.stat().st_size < 20_000
    assert "without compression" in refused(path, formats.read_npz)
    np.savez(path, images=np.zeros((40, 256, 256), np.uint8))
    assert formats.read_npz(path)["images"].shape == (40, 256, 256)


def test_a_small_gz_does_not_fill_memory(tmp_path):
    path = tmp_path / "a-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x03" + bytes(12) + bytes(4 << 20)))
    assert "become more than" in refused(path, formats.read_idx)


def test_a_small_mat_does_not_fill_memory(tmp_path):
    from scipy.io import savemat

    path = tmp_path / "a.mat"
    savemat(path, {"X": np.zeros((32, 32, 3, 900), np.uint8)}, do_compression=True)
    assert path.stat().st_size < 10_000
    assert "variable X of uint8" in refused(path, lambda where: layouts.read_mat(where, ["X"], False))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(2, 3, 4)", "(-2, -3, 4)"),
        ("(2, 3, 4)", "(2, 3, 5)"),
        ("'|u1', 'fortran_order': False, 'shape': (2, 3, 4)", "'|V0', 'fortran_order': False, 'shape': (10**9,)"),
        ("'|u1'", "'|V0'"),
        ("False", '"""'),
        ("False", "b''"),
    ],
)
def test_npy_headers_are_not_believed(tmp_path, old, new):
    stream = io.BytesIO()
    np.save(stream, np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
    head, rest = stream.getvalue()[:10], stream.getvalue()[10:]
    text = rest[:118].decode().replace(old, new).rstrip().ljust(117)[:117] + "\n"
    path = tmp_path / "a.npy"
    path.write_bytes(head + text.encode() + rest[118:])
    refused(path, formats.read_npy)


def test_npy_files_damaged_at_random(tmp_path):
    stream, dice, path = io.BytesIO(), random.Random(1), tmp_path / "a.npy"
    np.save(stream, np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
    for _ in range(1500):
        data = bytearray(stream.getvalue())
        for _ in range(dice.choice((1, 2, 4))):
            at = dice.randrange(80)
            data[at : at + dice.randrange(2)] = dice.choice(
                (b"", b"(", b"'", b'"""', b"\n", b"-9", b"V0", b"O", b"#", b"\x80")
            )
        path.write_bytes(data)
        try:
            assert formats.read_npy(path).nbytes <= len(data)
        except InputError as error:
            assert str(error).isprintable() and "expected" in str(error)


def test_names_of_arrays_cannot_write_lines(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a\nprepare: fine.npy", b"nothing")
    refused(path, formats.read_npz)
