"""Array files from anywhere: IDX, NPY and NPZ. No length in a file is believed before it is checked."""

import gzip
import io
import math
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errors import InputError, one_line, shown
from walk import regular

BYTES_MOST = 8 << 30  # of one array, or of all arrays of a file once unpacked
UNPACKED_ALWAYS = 256 << 20
RATIO_MOST = 64  # pictures shrink to a tenth, drawings on a plain ground to a fiftieth; zeros to a thousandth
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
NPY_DAMAGED = (ValueError, TypeError, SyntaxError, tokenize.TokenError, EOFError, zipfile.BadZipFile, zlib.error)


def unpacked_most(path: Path) -> int:
    """Bytes that a compressed file may become: a small one that fills the memory is made to do so."""
    return min(BYTES_MOST, max(UNPACKED_ALWAYS, RATIO_MOST * path.stat().st_size))


def read_whole(path: Path, what: str) -> bytes:
    """A file's bytes, those of a gzip unpacked. Refuses what is no ordinary file or takes too much memory."""
    regular(path, what)
    size = path.stat().st_size
    if size > BYTES_MOST:
        raise InputError(f"{path}: {size} bytes; expected {what} of at most {BYTES_MOST}")
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; expected {what}") from None
    if packed[:2] != b"\x1f\x8b":
        return packed
    most = unpacked_most(path)
    try:
        with gzip.open(io.BytesIO(packed)) as stream:
            data = stream.read(most + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip ({one_line(error)}); expected {what}, whole") from None
    if len(data) > most:
        raise InputError(f"{path}: {size} bytes become more than {most}; expected less, or no compression")
    return data


def read_idx(path: Path) -> NDArray[Any]:
    """An MNIST-style IDX file, plain or gzip."""
    data = read_whole(path, "an IDX file")
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in IDX_TYPES or not 1 <= data[3] <= 4:
        raise InputError(f"{path}: starts with bytes {data[:4].hex() or 'none'}; expected an IDX header 0000TTDD")
    kind, dimensions = np.dtype(IDX_TYPES[data[2]]), data[3]
    start = 4 + 4 * dimensions
    if len(data) < start:
        raise InputError(f"{path}: ends inside its header at byte {len(data)}; expected {dimensions} dimensions")
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions)]
    wanted = math.prod(shape) * kind.itemsize
    if wanted != len(data) - start:
        raise InputError(
            f"{path}: header says shape {shape} of {kind.name}, {wanted} bytes, "
            f"but {len(data) - start} bytes follow; expected them equal"
        )
    return np.frombuffer(data, kind, offset=start).reshape(shape).astype(kind.newbyteorder("="))


def _read_npy_stream(stream: Any, name: str, available: int) -> NDArray[Any]:
    """`available`: bytes that the header and the numbers have together."""
    try:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, kind = read_header(stream)
        if kind.hasobject:
            raise InputError(f"{name}: holds Python objects; expected numbers or strings")
        wanted = math.prod(shape) * kind.itemsize
        if min(shape, default=1) < 0 or kind.itemsize == 0 or wanted > min(available, BYTES_MOST):
            raise InputError(
                f"{name}: header says shape {shape} of {kind}, {wanted} bytes; expected no more than the file holds"
            )
        data = stream.read(wanted)
    except (*NPY_DAMAGED, OSError) as error:
        raise InputError(f"{name}: {one_line(error)}; expected a .npy array") from None
    if len(data) != wanted:
        raise InputError(f"{name}: {len(data)} bytes where the header says {wanted}; expected a whole array")
    return np.frombuffer(bytearray(data), kind).reshape(shape, order="F" if fortran else "C")


def read_npy(path: Path) -> NDArray[Any]:
    regular(path, "a .npy array")
    try:
        with path.open("rb") as stream:
            return _read_npy_stream(stream, str(path), path.stat().st_size)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; expected a .npy array") from None


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    regular(path, "a .npz file")
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            most, unpacked = unpacked_most(path), sum(member.file_size for member in members)
            if unpacked > most:
                raise InputError(
                    f"{path}: {path.stat().st_size} bytes become {unpacked}; expected at most {most}, or np.savez "
                    "without compression"
                )
            out = {}
            for member in members:
                with archive.open(member) as stream:
                    name = shown(member.filename[:-4])
                    if name in out:
                        raise InputError(f"{path}: two arrays {name}; expected each name once")
                    out[name] = _read_npy_stream(stream, f"{path}:{name}", member.file_size)
            return out
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:  # damaged; compressed oddly; encrypted
        raise InputError(f"{path}: {one_line(error)}; expected a .npz file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; expected a .npz file") from None
