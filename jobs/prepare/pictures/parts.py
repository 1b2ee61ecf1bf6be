"""A packed set of pictures cut by classes: what to pre-train on, what to fine-tune on, and the latter with a share of
its training pictures replaced by others (cross-task linearity paper, section 5)."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from errors import InputError, checked_text, one_line
from formats import unpacked_most
from packed import COUNTS_TITLE, Say, counts_line, write_whole, write_words
from splits import SPLIT_NAMES, stable_hash
from walk import regular

START = "start"  # the part for pre-training; the others are d1, d2, …
Pictures = NDArray[np.uint8]  # [n,h,w,c]


@dataclass
class Source:
    """A packed file of pictures, open for reading and checked."""

    path: Path
    file: h5py.File
    class_names: list[str]
    attributes: dict[str, Any]

    def read(self, name: str) -> NDArray[Any]:
        try:
            return np.asarray(self.file[name][()])
        except Exception as error:  # as in opened()
            raise InputError(f"{self.path}:/{name}: {one_line(error)}; expected a whole data set") from None

    def rows(self, split: str, classes: range, most: int) -> NDArray[np.int64]:
        """The first rows of each of these classes, in the file's order."""
        labels = self.read(f"{split}/labels")
        rows_by_class = [np.flatnonzero(labels == label)[:most] for label in classes]
        return np.sort(np.concatenate(rows_by_class))

    def write(
        self,
        path: Path,
        rows: dict[str, NDArray[np.int64]],
        replace: bool,
        changed: Callable[[Pictures], Pictures] = lambda pictures: pictures,
    ) -> str:
        """A task of these rows, read by the rows of a model's classifier: a class keeps its number."""
        names = self.class_names

        def fill(file: h5py.File) -> None:
            for key, value in self.attributes.items():
                file.attrs[key] = value
            file.attrs["task"] = path.stem
            for split in SPLIT_NAMES:
                file[f"{split}/inputs"] = changed(self.read(f"{split}/inputs")[rows[split]])
                file[f"{split}/labels"] = self.read(f"{split}/labels")[rows[split]]
            write_words(file, names, np.arange(len(names)), names)

        write_whole(path, fill, replace)
        return counts_line(path.stem, [len(rows[split]) for split in SPLIT_NAMES], len(names))


def data_set(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    """A data set whose numbers lie in the file itself. Raises InputError where another file is linked in its place."""
    node: Any = file
    for step in name.split("/"):
        link = node.get(step, getlink=True) if isinstance(node, h5py.Group) else None
        if not isinstance(link, h5py.HardLink):
            what = "is missing" if link is None else "is a link"
            raise InputError(f"{path}:/{name}: {what}; expected a packed task of pictures")
        node = node[step]
    if not isinstance(node, h5py.Dataset) or node.external or node.is_virtual:
        raise InputError(f"{path}:/{name}: no data set of this file; expected a packed task of pictures")
    if node.size is None or node.size * node.dtype.itemsize > (most := max(unpacked_most(path), path.stat().st_size)):
        raise InputError(f"{path}:/{name}: {node.shape} of {node.dtype}; expected at most {most} bytes of such a file")
    return node


def checked(path: Path, file: h5py.File) -> Source:
    """The file's task, once it is what the program takes. Raises InputError."""
    attributes = dict(file.attrs)
    if attributes.get("modality") != "image":
        raise InputError(f"{path}: its modality is not image; expected a packed task of pictures")
    names = data_set(path, file, "class_names")
    if names.ndim != 1 or h5py.check_string_dtype(names.dtype) is None or not len(names):
        raise InputError(f"{path}:/class_names: {names.shape} of {names.dtype}; expected texts [classes]")
    shape = data_set(path, file, "train/inputs").shape[1:]
    for split in SPLIT_NAMES:
        inputs, labels = data_set(path, file, f"{split}/inputs"), data_set(path, file, f"{split}/labels")
        if inputs.dtype != np.uint8 or inputs.ndim != 4 or inputs.shape[1:] != shape or 0 in inputs.shape:
            raise InputError(f"{path}:/{split}/inputs: {inputs.dtype} {list(inputs.shape)}; expected uint8 [n,h,w,c]")
        if labels.dtype.kind not in "iu" or labels.shape != inputs.shape[:1]:
            raise InputError(
                f"{path}:/{split}/labels: {labels.dtype} {list(labels.shape)}; expected {len(inputs)} whole numbers"
            )
        if labels[()].min() < 0 or labels[()].max() >= len(names):
            raise InputError(f"{path}:/{split}/labels: {labels[()].max()}; expected 0 to {len(names) - 1}")
    for name in ("mean", "std"):
        values = np.asarray(attributes.get(name, []))
        if values.shape != shape[2:] or values.dtype.kind != "f" or not np.isfinite(values).all():
            raise InputError(f"{path}: attribute {name} is {values.tolist()}; expected {shape[2]} numbers")
    for name in ("task", "source", "license"):
        if not isinstance(attributes.get(name), str):
            raise InputError(f"{path}: attribute {name} is no text; expected one")
    decoded = [name.decode("utf-8", "surrogateescape") for name in names[()]]
    names_told = [checked_text(name, f"{path}:/class_names") for name in decoded]
    return Source(path, file, names_told, attributes)


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """A packed task of pictures. Raises InputError where it is none."""
    regular(path, "a packed task of pictures")
    with ExitStack() as stack:
        try:
            source = checked(path, stack.enter_context(h5py.File(path)))
        except InputError:
            raise
        except Exception as error:  # a damaged file makes h5py raise nearly anything
            raise InputError(f"{path}: {one_line(error)}; expected a packed task of pictures") from None
        yield source


def keep_inputs(inputs: Sequence[Path], outputs: Sequence[Path], replace: bool) -> None:
    """Refuses to write over what is read, unless that is asked for."""
    for path in outputs:
        if not replace and path.exists() and any(path.samefile(each) for each in inputs):
            raise InputError(f"{path}: is an input too; expected another --out, or --replace")


def groups(sizes: list[int], classes: int) -> list[range]:
    """Cuts the classes into consecutive groups of these sizes."""
    if min(sizes) < 1 or len(sizes) < 3 or sum(sizes) > classes:
        raise InputError(
            f"--classes {' '.join(map(str, sizes))}: expected three numbers or more, of classes to pre-train on and of "
            f"two tasks, together at most the {classes} that there are"
        )
    ends = np.cumsum(sizes).tolist()
    return [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def replaced(rows: NDArray[np.int64], other: NDArray[np.int64], percent: int, name: str) -> NDArray[np.int64]:
    """`rows` with so many percent of them replaced by rows of `other`, drawn by name."""
    count = len(rows) * percent // 100
    if count > len(other):
        raise InputError(f"--replaced {percent}: {name} needs {count} other pictures; there are {len(other)}")
    draw = np.random.default_rng(stable_hash(name))
    kept = draw.permutation(rows)[: len(rows) - count]
    return np.sort(np.concatenate([kept, draw.permutation(other)[:count]]))


def prepare(options: argparse.Namespace, say: Say) -> None:
    if any(not 0 < percent <= 100 for percent in options.replaced):
        raise InputError(f"--replaced {' '.join(map(str, options.replaced))}: expected percents from 1 to 100")
    if options.pictures < 1:
        raise InputError(f"--pictures {options.pictures}: expected 1 or more")
    with opened(options.input) as source:
        parts = groups(options.classes, len(source.class_names))
        names = [START, *(f"d{number}" for number in range(1, len(parts)))]
        whole = {
            name: {split: source.rows(split, part, options.pictures) for split in SPLIT_NAMES}
            for name, part in zip(names, parts, strict=True)
        }
        for name in names[1:]:
            others = [START] if name == "d1" else [START, "d1"]
            for other in others:
                for percent in options.replaced:
                    task = f"{name}-{other}-{percent}"
                    train = replaced(whole[name]["train"], whole[other]["train"], percent, task)
                    whole[task] = whole[name] | {"train": train}
        paths = {task: options.out / f"{task}.h5" for task in whole}
        keep_inputs([options.input], list(paths.values()), options.replace)
        say(COUNTS_TITLE)
        for task, rows in whole.items():
            say(source.write(paths[task], rows, options.replace))
