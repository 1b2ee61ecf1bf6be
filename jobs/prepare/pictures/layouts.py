# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' data sets as they lie on disk: folders and order as in github.com/gortizji/tangent_task_arithmetic.

Nothing is decoded here: a layout gives labels, and for each row a file or a small array.
"""

import csv
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import walk
from errors import InputError
from pictures.facts import FACTS, expect_classes
from pictures.further import FURTHER, FURTHER_PLACES
from pictures.imagenet_names import expect_clips_names, expect_folders, names_of
from pictures.rows import (
    DIGITS,
    Layout,
    Rows,
    checked,
    folder_rows,
    idx_splits,
    need,
    read_mat,
    spaced,
    split_folders,
)

CONTROL = "imagenet"
CONTROL_TRAIN = 5000  # pictures: regimes that take any take penalty_batch a step, 16 in the papers


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
        folder = inner if (inner := folder / folder.name).is_dir() else folder  # Kaggle's copy has it twice
        need(folder, "a folder of pictures")
        return Rows([str(folder / str(name)) for name in table["fname"]], labels)

    labelled = base / "devkit/cars_test_annos_withlabels.mat"  # or beside the devkit, where torchvision has it
    splits = {
        "train": annotated(base / "devkit/cars_train_annos.mat", base / "cars_train"),
        "test": annotated(labelled if labelled.exists() else base / labelled.name, base / "cars_test"),
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
    folders = walk.classes(training)
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
    splits = idx_splits(base, {"train": "train", "test": "t10k"})
    expect_classes("mnist", len(np.unique(splits["train"].labels)), base)
    return Layout(DIGITS, splits)


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
    classes = walk.classes(folder)
    expect_classes("resisc45", len(classes), folder)
    everything = folder_rows(folder, classes)
    row_of: dict[str, int] = {}
    for row, path in enumerate(everything.items):
        if (first := row_of.setdefault(os.path.basename(path), row)) != row:
            raise InputError(
                f"{path}: {everything.items[first]} has the same name; expected each once, as lists have names"
            )

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
    return Layout(spaced(without_letters(root / "sun397/train", classes)), rows)


def without_letters(where: Path, classes: Sequence[str]) -> list[str]:
    """Names of folders such as "a_abbey" without the letter in front, by which SUN397 sorts its folders; some copies
    have none."""
    lettered = [name for name in classes if name[1:2] == "_" and name[2:3] and name[0] == name[2]]
    if lettered and len(lettered) < len(classes):
        other = next(name for name in classes if name not in lettered)
        raise InputError(
            f"{where / other}: stands beside {lettered[0]}; expected names all with a letter in front, or none"
        )
    return [name[2:] for name in lettered] or list(classes)


def imagenet(root: Path, names_file: Path | None) -> Layout:
    """The control task. No model learns its labels, but the τJp regularised regimes take inputs of its train split.

    With a training folder, test is the whole validation folder, and validation is drawn from the training folder, as
    in the papers; of that folder's 1.28 million pictures the packed file keeps 5000 more for train, drawn uniformly,
    not by class. The validation folder alone does too: see deal() in originals.py.
    """
    base = root / CONTROL
    test = "val_in_folder" if (base / "val_in_folder").exists() else "val"
    classes = walk.classes(base / test)
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


EIGHT: dict[str, Callable[[Path], Layout]] = {
    "cars": cars,
    "dtd": dtd,
    "eurosat": eurosat,
    "gtsrb": gtsrb,
    "mnist": mnist,
    "resisc45": resisc45,
    "sun397": sun397,
    "svhn": svhn,
}
LAYOUTS = EIGHT | FURTHER
# The field's sets of tasks, each a part of the next (Wang et al. 2024, TALL masks).
SETS = {"eight": list(EIGHT), "fourteen": list(LAYOUTS)[:14], "twenty": list(LAYOUTS)}
PLACES = {
    "cars": "stanford_cars",
    "dtd": "dtd",
    "eurosat": "EuroSAT_splits",
    "gtsrb": "gtsrb",
    "mnist": "MNIST",
    "resisc45": "resisc45",
    "sun397": "sun397",
    "svhn": "svhn",
    **FURTHER_PLACES,
    CONTROL: "imagenet",
}
