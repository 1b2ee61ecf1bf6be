"""A packed set of pictures cut by classes: what to pre-train on, what to fine-tune on, and the latter with a share of
its training pictures replaced by others (cross-task linearity paper, section 5)."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from errors import InputError
from packed import COUNTS_TITLE, Say, counts_line, write_whole, write_words
from splits import SPLIT_NAMES, stable_hash

START = "start"  # the part for pre-training; the others are d1, d2, …
Pictures = NDArray[np.uint8]  # [n,h,w,c]


@dataclass
class Source:
    """A packed file of pictures, open for reading."""

    file: h5py.File

    @property
    def class_names(self) -> list[str]:
        return [name.decode() for name in self.file["class_names"]]

    def rows(self, split: str, classes: range, most: int) -> NDArray[np.int64]:
        """The first rows of each of these classes, in the file's order."""
        labels = self.file[f"{split}/labels"][()]
        rows_by_class = [np.flatnonzero(labels == label)[:most] for label in classes]
        return np.sort(np.concatenate(rows_by_class))

    def write(
        self,
        path: Path,
        rows: dict[str, NDArray[np.int64]],
        changed: Callable[[Pictures], Pictures] = lambda pictures: pictures,
    ) -> str:
        """A task of these rows, read by the rows of a model's classifier: a class keeps its number."""
        names = self.class_names

        def fill(file: h5py.File) -> None:
            for key, value in self.file.attrs.items():
                file.attrs[key] = value
            file.attrs["task"] = path.stem
            for split in SPLIT_NAMES:
                file[f"{split}/inputs"] = changed(self.file[f"{split}/inputs"][()][rows[split]])
                file[f"{split}/labels"] = self.file[f"{split}/labels"][()][rows[split]]
            write_words(file, names, np.arange(len(names)), names)

        write_whole(path, fill)
        return counts_line(path.stem, [len(rows[split]) for split in SPLIT_NAMES], len(names))


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """A packed task of pictures. Raises InputError where it is none."""
    if not path.is_file():
        raise InputError(f"{path}: not found; expected a packed task of pictures")
    with h5py.File(path) as file:
        if file.attrs.get("modality") != "image":
            raise InputError(f"{path}: is no packed task of pictures")
        yield file


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
    """`own` with so many percent of its rows replaced by rows of `other`, drawn by name."""
    count = len(rows) * percent // 100
    if count > len(other):
        raise InputError(f"--replaced {percent}: {name} needs {count} other pictures; there are {len(other)}")
    draw = np.random.default_rng(stable_hash(name))
    kept = draw.permutation(rows)[: len(rows) - count]
    return np.sort(np.concatenate([kept, draw.permutation(other)[:count]]))


def prepare(options: argparse.Namespace, say: Say) -> None:
    if any(not 0 < percent <= 100 for percent in options.replaced):
        raise InputError(f"--replaced {' '.join(map(str, options.replaced))}: expected percents from 1 to 100")
    with opened(options.input) as file:
        source = Source(file)
        parts = groups(options.classes, len(source.class_names))
        names = [START, *(f"d{number}" for number in range(1, len(parts)))]
        whole = {
            name: {split: source.rows(split, part, options.pictures) for split in SPLIT_NAMES}
            for name, part in zip(names, parts, strict=True)
        }
        say(COUNTS_TITLE)
        for name, rows in whole.items():
            say(source.write(options.out / f"{name}.h5", rows))
        for name in names[1:]:
            others = [START] if name == "d1" else [START, "d1"]
            for other in others:
                for percent in options.replaced:
                    task = f"{name}-{other}-{percent}"
                    train = replaced(whole[name]["train"], whole[other]["train"], percent, task)
                    say(source.write(options.out / f"{task}.h5", whole[name] | {"train": train}))
