"""The packed HDF5 file of one task: the contract between data preparation and the program."""

import filecmp
import hashlib
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from errors import InputError, one_line
from splits import SPLIT_NAMES, stable_hash
from walk import regular

# The default model is pre-trained with these constants; they are the same for all tasks, for one model sees all.
MEAN = (0.5, 0.5, 0.5)
STD = (0.5, 0.5, 0.5)
# CLIP's (github.com/openai/CLIP, clip/clip.py)
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
LOGIT_SCALE = 100.0  # where CLIP's own pre-training ends
Say = Callable[[str], None]  # prints a line of progress
PREPARE = Path(__file__).parent


@dataclass
class Stream:
    """uint8 pictures [n,h,w,c] too many for memory: made block by block while the file is written."""

    shape: tuple[int, int, int, int]
    blocks: Callable[[], Iterator[NDArray[np.uint8]]]
    dtype = np.dtype(np.uint8)
    ndim = 4

    def __len__(self) -> int:
        return self.shape[0]


@dataclass
class Packed:
    """One task, ready to be written. `keys`, if known, holds each row's split key; without `head` it is read by a
    classifier that the model brings, a row a class."""

    task: str
    source: str
    license: str
    class_names: list[str]
    inputs: Mapping[str, NDArray[np.uint8] | Stream]
    labels: dict[str, NDArray[np.int64]]
    head: NDArray[np.float32] | None
    keys: dict[str, list[str]] | None = None
    logit_scale: float = LOGIT_SCALE
    mean: Sequence[float] = MEAN
    std: Sequence[float] = STD
    attributes: dict[str, str] | None = None

    def check(self) -> None:
        classes = len(self.class_names)
        if self.head is not None and (self.head.ndim != 2 or self.head.shape[0] != classes):
            raise InputError(
                f"head of {self.task}: shape {self.head.shape}; expected one row for each of {classes} classes"
            )
        for split in SPLIT_NAMES:
            images, labels = self.inputs[split], self.labels[split]
            if images.ndim != 4 or images.dtype != np.uint8:
                raise InputError(
                    f"{split} of {self.task}: images {images.dtype} {images.shape}; expected uint8 [n,h,w,c]"
                )
            if len(images) == 0:
                raise InputError(f"{split} of {self.task}: no pictures; expected at least one")
            if len(images) != len(labels):
                raise InputError(
                    f"{split} of {self.task}: {len(images)} pictures and {len(labels)} labels; expected as many"
                )
            if labels.min() < 0 or labels.max() >= classes:
                raise InputError(
                    f"{split} of {self.task}: labels {labels.min()} to {labels.max()}; expected 0 to {classes - 1}"
                )


def name_of(path: Path) -> str:
    """A task's name, made of the name of its file or folder."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", Path(os.path.realpath(path)).stem).strip("_")


def check_task(task: str) -> None:
    """Refuses a name that the program does not take for a task: it writes "__" for the slashes of units' names."""
    if len(task) > 64 or not re.fullmatch(r"[A-Za-z0-9-]*(_[A-Za-z0-9-]+)*", task) or not task[:1].isalnum():
        raise InputError(
            f"--task {task}: expected at most 64 letters, digits, - and single _, starting with a letter or digit, "
            "not ending with _"
        )


PART = re.compile(r"\..+\.(?P<process>\d+)\.part")


def part_name(path: Path) -> str:
    return f".{path.name}.{socket.gethostname()}.{os.getpid()}.part"


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # another user's; no process of ours
        return True
    return True


def sweep(folder: Path) -> None:
    """Removes what processes of this host left half written in `folder` and did not live to remove. Nobody here knows
    whether processes of other hosts still write: their files are named on the error stream."""
    for part in folder.glob(".*.part"):
        match = PART.fullmatch(part.name)
        if match is None:
            continue
        if not part.name.endswith(f".{socket.gethostname()}.{match['process']}.part"):
            print(f"prepare: {part}: of another host's process; remove it if that has ended", file=sys.stderr)
        elif not alive(int(match["process"])):
            shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)


@contextmanager
def whole(path: Path, replace: bool = True) -> Iterator[Path]:
    """A temporary path to write to, renamed at the end: the path holds a whole file or none. Without `replace` a file
    with other bytes that is there already stays, and is named in an InputError."""
    if path.exists():
        regular(path, "a file, or none")
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent)
    part = path.with_name(part_name(path))
    try:
        yield part
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)  # safetensors keeps its files from all others
        with part.open("rb") as written:
            os.fsync(written.fileno())
        if not replace and path.exists() and not filecmp.cmp(part, path, shallow=False):
            raise InputError(f"{path}: is there already, with other data; expected another --out or name, or --replace")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, fill: Callable[[h5py.File], None], replace: bool = True) -> None:
    with whole(path, replace) as part:
        try:
            with h5py.File(part, "w") as file:
                fill(file)
        except (OSError, RuntimeError) as error:  # how HDF5 says that a disk is full, or a file too long
            raise InputError(f"{path}: {one_line(error)}; expected room for the file") from None


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def code(names: Iterable[str]) -> bytes:
    """The bytes of these files of jobs/prepare, code and tables, which the attribute `built_from` depends on."""
    return b"".join((PREPARE / name).read_bytes() for name in names)


def already_built(path: Path, wanted: str) -> bool:
    """Whether the packed file is there and was built from what this digest stands for; a damaged file was not. Raises
    InputError where another command wrote the file, which so is not to be replaced."""
    if not path.exists():
        return False
    regular(path, "a file, or none")
    try:
        with h5py.File(path) as file:
            built_from = file.attrs.get("built_from")
    except (OSError, RuntimeError):
        return False
    if built_from is None:
        raise InputError(f"{path}: is there already, and not of this command; expected another --out, or no such file")
    return bool(built_from == wanted)


def write_inputs(group: h5py.Group, images: NDArray[np.uint8] | Stream) -> None:
    if not isinstance(images, Stream):
        group.create_dataset("inputs", data=images)
        return
    inputs = group.create_dataset("inputs", images.shape, images.dtype)
    row = 0
    for block in images.blocks():
        inputs[row : row + len(block)] = block
        row += len(block)
    if row != len(images):
        raise RuntimeError(f"{group.name}: {row} pictures came where {len(images)} were promised")


def write_keys(group: h5py.Group, keys: Sequence[str]) -> None:
    group.create_dataset("split_key", data=np.array([stable_hash(key) for key in keys], np.uint64))


def write_head(file: h5py.File, rows: NDArray[np.float32], logit_scale: float, class_names: Sequence[str]) -> None:
    """Writes a head of unit rows [classes, features], the scale of its logits, and the classes' names."""
    head = file.create_dataset("head/weight", data=rows.astype(np.float32))
    head.attrs["logit_scale"] = np.float32(logit_scale)
    file["head"].attrs["kind"] = "cosine"
    file.create_dataset("class_names", data=class_names, dtype=h5py.string_dtype())


def write_words(file: h5py.File, words: Sequence[str], tokens: NDArray[np.int64], class_names: Sequence[str]) -> None:
    """Writes a head with a label word a class: words, their rows in the model's vocabulary, and the classes' names."""
    file.create_dataset("head/tokens", data=tokens)
    file["head"].attrs["kind"] = "words"
    file["head"].attrs["words"] = list(words)
    file.create_dataset("class_names", data=class_names, dtype=h5py.string_dtype())


def write(packed: Packed, path: Path, replace: bool = True) -> None:
    packed.check()

    def fill(file: h5py.File) -> None:
        file.attrs["task"] = packed.task
        file.attrs["modality"] = "image"
        file.attrs["source"] = packed.source
        file.attrs["license"] = packed.license
        file.attrs["mean"] = np.asarray(packed.mean, np.float32)
        file.attrs["std"] = np.asarray(packed.std, np.float32)
        for name, value in (packed.attributes or {}).items():
            file.attrs[name] = value
        for split in SPLIT_NAMES:
            group = file.create_group(split)
            write_inputs(group, packed.inputs[split])
            group.create_dataset("labels", data=packed.labels[split].astype(np.int64))
            if packed.keys:
                write_keys(group, packed.keys[split])
        if packed.head is None:
            write_words(file, packed.class_names, np.arange(len(packed.class_names)), packed.class_names)
        else:
            write_head(file, packed.head, packed.logit_scale, packed.class_names)

    write_whole(path, fill, replace)


COUNTS_TITLE = "task                train  valid   test"


def counts_line(task: str, counts: Sequence[int], classes: int) -> str:
    """Formats a line below COUNTS_TITLE: the rows of each split, and how many classes there are."""
    return f"{task:18s} {' '.join(f'{count:6d}' for count in counts)} {classes:4d} classes"
