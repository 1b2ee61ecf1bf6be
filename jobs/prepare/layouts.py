# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' data sets as they lie on disk: folders and order as in github.com/gortizji/tangent_task_arithmetic.

Nothing is decoded here: a layout gives labels, and for each row a file or a small array.
"""

import csv
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errors import InputError
from facts import FACTS, expect_classes
from formats import read_idx, unpacked_most
from imagenet_names import expect_clips_names, expect_folders, names_of

SUFFIXES = {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}
CONTROL = "imagenet"
CONTROL_TRAIN = 5000  # pictures: regimes that take any take penalty_batch a step, 16 in the papers
MAT_BYTES = {"int8": 1, "uint8": 1, "char": 2, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "single": 4}
DIGITS = [str(digit) for digit in range(10)]


@dataclass
class Rows:
    """Pictures not read yet: a file a row (text: a Path takes four times the memory), or uint8 [n,h,w] or [n,h,w,3]."""

    items: Sequence[str] | NDArray[np.uint8]
    labels: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> "Rows":
        items = self.items[rows] if isinstance(self.items, np.ndarray) else [self.items[row] for row in rows]
        return Rows(items, self.labels[rows])


@dataclass
class Layout:
    """Splits as the data set itself has them; those that it lacks are drawn later. Of train, at most `train_most`."""

    class_names: list[str]
    splits: dict[str, Rows]
    split_rule: str = "the set's own; validation min(10 %, 5000) of train by seed 0 unless the set has one"
    train_most: int | None = None


def need(path: Path, what: str) -> Path:
    if not path.exists():
        raise InputError(f"{path}: not found; expected {what}")
    return path


def class_folders(root: Path) -> list[str]:
    need(root, "a folder with a subfolder a class")
    with os.scandir(root) as entries:
        names = sorted(each.name for each in entries if each.is_dir() and not each.name.startswith("."))
    if not names:
        raise InputError(f"{root}: no subfolders; expected one a class")
    return names


def pictures(folder: Path, suffixes: set[str]) -> list[str]:
    """In the order of torchvision's ImageFolder, which the papers' seeded split counts on."""
    found = []
    for parent, _, files in sorted(os.walk(folder, followlinks=True)):
        found += [f"{parent}/{name}" for name in sorted(files) if os.path.splitext(name)[1].lower() in suffixes]
    return found


def folder_rows(root: Path, classes: Sequence[str], suffixes: set[str] = SUFFIXES) -> Rows:
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        inside = pictures(root / name, suffixes)
        if not inside:
            raise InputError(f"{root / name}: no pictures; expected {', '.join(sorted(suffixes))}")
        paths += inside
        labels += [label] * len(inside)
    return Rows(paths, np.array(labels, np.int64))


def split_folders(root: Path, folders: dict[str, str]) -> tuple[list[str], dict[str, Rows]]:
    """The same classes in each split's folder, or the labels would not mean the same."""
    classes = class_folders(root / folders["train"])
    rows = {}
    for split, folder in folders.items():
        here = class_folders(root / folder)
        if here != classes:
            odd = sorted(set(here) ^ set(classes))[0]
            raise InputError(
                f"{root / folder}: {odd} is not in both {folder} and {folders['train']}; expected the same classes"
            )
        rows[split] = folder_rows(root / folder, classes)
    return classes, rows


def spaced(names: Sequence[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]


def read_mat(path: Path, names: Sequence[str], squeeze: bool) -> list[NDArray[Any]]:
    from scipy.io import loadmat, whosmat

    need(path, "a MATLAB file")
    try:
        most = unpacked_most(path)
        for name, shape, kind in whosmat(path):
            if name in names and math.prod(shape) * MAT_BYTES.get(kind, 8) > most:
                raise ValueError(f"variable {name} of {kind} has shape {list(shape)}, more than {most} bytes")
        table = loadmat(path, squeeze_me=squeeze, variable_names=list(names))
    except Exception as error:  # a damaged file makes SciPy raise nearly anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: {reason}; expected a MATLAB file before version 7.3") from None
    for name in names:
        if name not in table:
            raise InputError(f"{path}: no variable {name}; expected {', '.join(names)}")
    return [np.asarray(table[name]) for name in names]


def cars(root: Path) -> Layout:
    base = need(root / "stanford_cars", "stanford_cars/{cars_train,cars_test,devkit}")
    meta = base / "devkit/cars_meta.mat"
    names = np.atleast_1d(read_mat(meta, ["class_names"], True)[0]).tolist()
    expect_classes("cars", len(names), meta)

    def annotated(path: Path, folder: Path) -> Rows:
        table = np.atleast_1d(read_mat(path, ["annotations"], True)[0])
        if not {"fname", "class"} <= set(table.dtype.names or ()):
            raise InputError(f"{path}: annotations without fname or class; expected the devkit's file with labels")
        labels = np.array([int(label) - 1 for label in table["class"]], np.int64)
        outside = labels[(labels < 0) | (labels >= len(names))]
        if outside.size:
            raise InputError(f"{path}: class {outside[0] + 1}; expected 1 to {len(names)}, as in cars_meta.mat")
        need(folder, "a folder of pictures")
        return Rows([str(folder / str(name)) for name in table["fname"]], labels)

    splits = {
        "train": annotated(base / "devkit/cars_train_annos.mat", base / "cars_train"),
        "test": annotated(base / "cars_test_annos_withlabels.mat", base / "cars_test"),
    }
    return Layout(spaced([str(name) for name in names]), splits)


def dtd(root: Path) -> Layout:
    classes, rows = split_folders(root / "dtd", {"train": "train", "test": "val"})  # the papers test on val
    expect_classes("dtd", len(classes), root / "dtd/train")
    return Layout(spaced(classes), rows)


def eurosat(root: Path) -> Layout:
    base = root / "EuroSAT_splits"
    classes, rows = split_folders(base, {"train": "train", "validation": "val", "test": "test"})
    names: dict[str, str] = FACTS["eurosat"]["names"]
    for name in classes:
        if name not in names:
            raise InputError(f"{base / 'train' / name}: no class of EuroSAT; expected {', '.join(names)}")
    expect_classes("eurosat", len(classes), base / "train")
    return Layout([names[name] for name in classes], rows)


def gtsrb(root: Path) -> Layout:
    base = root / "gtsrb"
    names: list[str] = FACTS["gtsrb"]["classes"]

    def number(text: str | None, where: Path) -> int:
        if text is None or not text.isascii() or not text.isdigit() or int(text) >= len(names):
            raise InputError(f"{where}: class {text}; expected a number below {len(names)}")
        return int(text)

    training, final = base / "GTSRB/Training", base / "GTSRB/Final_Test/Images"
    folders = class_folders(training)
    train = folder_rows(training, folders, {".ppm"})
    train.labels = np.array([number(name, training / name) for name in folders], np.int64)[train.labels]
    expect_classes("gtsrb", len(np.unique(train.labels)), training)
    table = need(base / "GT-final_test.csv", "the labels of Final_Test, with columns Filename;ClassId")
    paths: list[str] = []
    labels: list[int] = []
    try:
        with table.open(newline="", encoding="utf-8-sig") as stream:
            for line in csv.DictReader(stream, delimiter=";", skipinitialspace=True):
                if not line.get("Filename"):
                    raise InputError(f"{table}: no column Filename; expected Filename;…;ClassId")
                labels.append(number(line.get("ClassId"), table))
                paths.append(str(final / line["Filename"]))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{table}: {error}; expected text with columns Filename;…;ClassId") from None
    return Layout(names, {"train": train, "test": Rows(paths, np.array(labels, np.int64))})


def mnist(root: Path) -> Layout:
    base = need(root / "MNIST/raw", "MNIST/raw with train-images-idx3-ubyte and the other three")

    def part(prefix: str) -> Rows:
        arrays = []
        for name in (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"):
            arrays.append(read_idx(base / name if (base / name).exists() else base / f"{name}.gz"))
        images, labels = arrays
        return checked(images, labels, base / f"{prefix}-images-idx3-ubyte", (3,))

    splits = {"train": part("train"), "test": part("t10k")}
    expect_classes("mnist", len(np.unique(splits["train"].labels)), base)
    return Layout(DIGITS, splits)


def checked(images: NDArray[Any], labels: NDArray[Any], where: Path, dimensions: tuple[int, ...]) -> Rows:
    """Arrays of digits, refused unless they are pictures with as many labels below ten."""
    if images.dtype != np.uint8 or images.ndim not in dimensions or 0 in images.shape:
        raise InputError(f"{where}: {images.dtype} {list(images.shape)}; expected uint8 pictures")
    if labels.shape != images.shape[:1] or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() > 9:
        raise InputError(f"{where}: labels {labels.dtype} {list(labels.shape)}; expected {len(images)} digits")
    return Rows(images, labels.astype(np.int64))


def svhn(root: Path) -> Layout:
    def part(name: str) -> Rows:
        path = root / "svhn" / name
        images, labels = read_mat(path, ["X", "y"], False)
        if images.ndim != 4 or images.shape[2] != 3:
            raise InputError(f"{path}: X is {list(images.shape)}; expected [32,32,3,n]")
        digits = labels.reshape(-1)
        digits = np.where(digits == 10, 0, digits)  # the file calls zero 10
        return checked(images.transpose(3, 0, 1, 2), digits, path, (4,))

    splits = {"train": part("train_32x32.mat"), "test": part("test_32x32.mat")}
    expect_classes("svhn", len(np.unique(splits["train"].labels)), root / "svhn")
    return Layout(DIGITS, splits)


def resisc45(root: Path) -> Layout:
    base = root / "resisc45"
    folder = base / "NWPU-RESISC45"
    classes = class_folders(folder)
    expect_classes("resisc45", len(classes), folder)
    everything = folder_rows(folder, classes)
    row_of = {os.path.basename(path): row for row, path in enumerate(everything.items)}

    def part(name: str) -> Rows:
        path = need(base / name, "the split's file names, one a line")
        wanted = path.read_text("utf-8-sig", errors="replace").split()
        for file in wanted:
            if file not in row_of:
                raise InputError(f"{path}: {file} is not in {folder}; expected the names of its pictures")
        return everything.take(np.array(sorted(row_of[file] for file in set(wanted)), np.int64))

    # resisc45-val.txt stays unused, as in the papers.
    return Layout(spaced(classes), {"train": part("resisc45-train.txt"), "test": part("resisc45-test.txt")})


def sun397(root: Path) -> Layout:
    classes, rows = split_folders(root / "sun397", {"train": "train", "test": "val"})
    expect_classes("sun397", len(classes), root / "sun397/train")
    return Layout(spaced([name[2:] for name in classes]), rows)  # "a_abbey": a letter's folder, then the name


def imagenet(root: Path, names_file: Path | None) -> Layout:
    """The control task. No model learns its labels, but the τJp regularised regimes take inputs of its train split.

    With a training folder, test is the whole validation folder, and validation is drawn from the training folder, as
    in the papers; of that folder's 1.28 million pictures the packed file keeps 5000 more for train, drawn uniformly,
    not by class. The validation folder alone does too: see deal() in originals.py.
    """
    base = root / CONTROL
    test = "val_in_folder" if (base / "val_in_folder").exists() else "val"
    classes = class_folders(base / test)
    expect_classes(CONTROL, len(classes), base / test)
    expect_folders(base / test, classes)
    if names_file is None:
        raise InputError(
            f"{base / test}: its folders are named by number; expected --imagenet-classes FILE, a name a line in "
            "their order"
        )
    names = names_of(names_file, classes)  # first: listing the training folder takes long
    expect_clips_names(names_file, names, classes)
    if not (base / "train").exists():
        return Layout(
            names,
            {"test": folder_rows(base / test, classes)},
            split_rule="the validation folder alone, dealt by seed 0: min(10 %, 5000) validation, as many train (the "
            "τJp regularised regimes take inputs of it, no labels), the rest test",
        )
    return Layout(
        names,
        split_folders(base, {"train": "train", "test": test})[1],
        split_rule="of the train folder by seed 0: validation min(10 %, 5000), as the field's ImageNetVal, and train "
        f"{CONTROL_TRAIN} of the rest, uniformly, not by class (the τJp regularised regimes take inputs of it, no "
        "labels); test is the whole validation folder",
        train_most=CONTROL_TRAIN,
    )


LAYOUTS: dict[str, Callable[[Path], Layout]] = {
    "cars": cars,
    "dtd": dtd,
    "eurosat": eurosat,
    "gtsrb": gtsrb,
    "mnist": mnist,
    "resisc45": resisc45,
    "sun397": sun397,
    "svhn": svhn,
}
PLACES = {
    "cars": "stanford_cars",
    "dtd": "dtd",
    "eurosat": "EuroSAT_splits",
    "gtsrb": "gtsrb",
    "mnist": "MNIST",
    "resisc45": "resisc45",
    "sun397": "sun397",
    "svhn": "svhn",
    CONTROL: "imagenet",
}
