# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Twelve further data sets as torchvision leaves them on disk (facts: further.toml).

Each lies where github.com/nik-dim/tall_masks has torchvision put it, in a folder of its own for most sets, or where
torchvision puts it in the data location itself. Splits are as there: its training part without the set's own
validation part, which stays unused.
"""

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from errors import InputError, shown
from formats import unpacked_most
from pictures import cifar
from pictures.facts import FACTS, expect_classes
from pictures.rows import Layout, Rows, Stored, checked, idx_splits, need, read_mat, split_folders

UNUSED = "the set's own train and test; its own validation stays unused, as in the field: min(10 %, 5000) of train by "
UNUSED += "seed 0 is"
TURNED = "; pictures lie as in the files, mirrored along the diagonal, as torchvision has them and the field takes them"
USAGE = {"Training": "train", "PublicTest": "test", "PrivateTest": "test"}  # FER2013's
FACE, PATCH, STL = 48, 96, 96  # pixels


def place(root: Path, task: str) -> Path:
    """Where the set lies: in the field's folder or in the data location itself."""
    nested = root / FURTHER_PLACES[task]
    plain = root / FURTHER_PLACES[task].split("/", 1)[-1]
    return nested if nested.exists() or not plain.exists() else plain


def named(task: str) -> list[str]:
    """The classes' names in the order of their labels."""
    return list(FACTS[task]["classes"])


def expect_names(task: str, names: Sequence[str], where: Path) -> None:
    """Refuse labels in another order: each would have another's name."""
    for label, (name, listed) in enumerate(zip(named(task), names, strict=False)):
        if listed.replace("_", " ") != name:
            raise InputError(f"{where}: class {label} is {shown(listed)}; expected {name}")
    expect_classes(task, len(names), where)


def whole(task: str, splits: dict[str, Rows], where: Path, names: list[str] | None = None, rule: str = "") -> Layout:
    """All classes are there, and none beyond them."""
    expect_classes(task, len(np.unique(splits["train"].labels)), where)
    names = named(task) if names is None else names
    for split, rows in splits.items():
        if rows.labels.min() < 0 or rows.labels.max() >= len(names):
            raise InputError(f"{where}: {split} has class {rows.labels.max()}; expected 0 to {len(names) - 1}")
    return Layout(names, splits, rule) if rule else Layout(names, splits)


def cifar_batches(root: Path, task: str, parts: dict[str, list[str]], labels: str, meta: tuple[str, str]) -> Layout:
    base = need(place(root, task), "the folder that torchvision unpacks")
    expect_names(task, cifar.names(need(base / meta[0], "the classes' names"), meta[1]), base / meta[0])
    splits = {}
    for split, files in parts.items():
        read = [cifar.batch(need(base / name, "a pickled batch"), labels) for name in files]
        images, numbers = (np.concatenate(arrays) for arrays in zip(*read, strict=True))
        splits[split] = checked(images, numbers, base / files[0], (4,), len(named(task)))
    return whole(task, splits, base)


def cifar10(root: Path) -> Layout:
    parts = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
    return cifar_batches(root, "cifar10", parts, "labels", ("batches.meta", "label_names"))


def cifar100(root: Path) -> Layout:
    parts = {"train": ["train"], "test": ["test"]}
    return cifar_batches(root, "cifar100", parts, "fine_labels", ("meta", "fine_label_names"))


def stl10(root: Path) -> Layout:
    base = need(place(root, "stl10"), "stl10_binary with train_X.bin and the other files")
    names = need(base / "class_names.txt", "the classes' names, one a line")
    expect_names("stl10", names.read_text("utf-8-sig", errors="replace").split(), names)

    def part(split: str) -> Rows:
        images, labels = base / f"{split}_X.bin", base / f"{split}_y.bin"
        size = need(images, "uint8 pictures").stat().st_size
        if size == 0 or size % (3 * STL * STL):
            raise InputError(f"{images}: {size} bytes; expected a multiple of {3 * STL * STL}, a picture each")
        pixels = np.fromfile(images, np.uint8).reshape(-1, 3, STL, STL).transpose(0, 3, 2, 1)  # column by column
        numbers = np.fromfile(need(labels, "a byte a picture"), np.uint8).astype(np.int64) - 1
        return checked(pixels, numbers, images, (4,))

    return whole("stl10", {split: part(split) for split in ("train", "test")}, base)


def flowers102(root: Path) -> Layout:
    base = need(place(root, "flowers102"), "flowers-102/{jpg,imagelabels.mat,setid.mat}")
    (labels,) = (array.reshape(-1) for array in read_mat(base / "imagelabels.mat", ["labels"], True))
    splits = {}
    for split, name in (("train", "trnid"), ("test", "tstid")):
        rows = np.atleast_1d(read_mat(base / "setid.mat", [name], True)[0]).reshape(-1)
        if rows.dtype.kind not in "iu" or labels.dtype.kind not in "iu" or rows.size == 0:
            raise InputError(f"{base / 'setid.mat'}: {name} is {rows.dtype} {list(rows.shape)}; expected whole numbers")
        if rows.min() < 1 or rows.max() > len(labels):
            raise InputError(f"{base / 'setid.mat'}: {name} names picture {rows.max()}; expected 1 to {len(labels)}")
        paths = [str(base / f"jpg/image_{row:05d}.jpg") for row in rows.tolist()]
        splits[split] = Rows(paths, labels[rows.astype(np.int64) - 1].astype(np.int64) - 1)
    return whole("flowers102", splits, base, rule=UNUSED)


def oxfordiiitpet(root: Path) -> Layout:
    base = need(place(root, "oxfordiiitpet"), "oxford-iiit-pet/{images,annotations}")
    known = set(FACTS["oxfordiiitpet"]["classes"])
    names: dict[int, str] = {}

    def part(path: Path) -> Rows:
        """Lines "american_bulldog_100 2 2 1": the picture, its class from 1, and what is not used here."""
        paths, labels = [], []
        for line in need(path, "a line a picture").read_text("utf-8-sig", errors="replace").splitlines():
            words = line.split()
            if not words or line.startswith("#"):
                continue
            name = words[0].rsplit("_", 1)[0].replace("_", " ")
            if len(words) < 2 or not words[1].isascii() or not words[1].isdigit() or name not in known:
                raise InputError(f"{path}: {shown(line)}; expected BREED_NUMBER and its class, of CLIP's breeds")
            label = int(words[1]) - 1
            if names.setdefault(label, name) != name:
                raise InputError(f"{path}: class {label + 1} is {name} and {names[label]}; expected one breed a class")
            paths.append(str(base / "images" / f"{words[0]}.jpg"))
            labels.append(label)
        if not labels:
            raise InputError(f"{path}: no pictures; expected a line each")
        return Rows(paths, np.array(labels, np.int64))

    splits = {"train": part(base / "annotations/trainval.txt"), "test": part(base / "annotations/test.txt")}
    expect_classes("oxfordiiitpet", len(set(names.values())), base / "annotations")
    if sorted(names) != list(range(len(names))):
        raise InputError(f"{base / 'annotations'}: classes up to {max(names) + 1}; expected 1 to {len(names)}")
    return whole("oxfordiiitpet", splits, base, [names[label] for label in sorted(names)])


def pcam(root: Path) -> Layout:
    base = need(place(root, "pcam"), "pcam/camelyonpatch_level_2_split_train_x.h5 and the other three")

    def opened(path: Path, name: str) -> h5py.Dataset:
        try:
            data = h5py.File(need(path, "an HDF5 file, unpacked"), "r").get(name)
        except OSError as error:
            raise InputError(f"{path}: {error}; expected a whole HDF5 file") from None
        if not isinstance(data, h5py.Dataset):
            raise InputError(f"{path}: no data set {name}; expected that of PatchCamelyon")
        return data

    def part(split: str) -> Rows:
        pixels_path, labels_path = (base / f"camelyonpatch_level_2_split_{split}_{name}.h5" for name in "xy")
        images, labels = opened(pixels_path, "x"), opened(labels_path, "y")
        if images.dtype != np.uint8 or images.shape[1:] != (PATCH, PATCH, 3) or len(images) == 0:
            raise InputError(
                f"{pixels_path}: x is {images.dtype} {list(images.shape)}; expected uint8 [n,{PATCH},{PATCH},3]"
            )
        if images.size > (most := unpacked_most(pixels_path)):
            raise InputError(
                f"{pixels_path}: x is {list(images.shape)}, beyond {most} bytes; expected what the file holds"
            )
        if labels.dtype.kind not in "iu" or labels.size != len(images):
            raise InputError(
                f"{labels_path}: y is {labels.dtype} {list(labels.shape)}; expected {len(images)} whole numbers"
            )
        return Rows(Stored(pixels_path, images, np.arange(len(images))), labels[()].reshape(-1).astype(np.int64))

    return whole("pcam", {split: part(split) for split in ("train", "test")}, base, rule=UNUSED)


def fer2013(root: Path) -> Layout:
    base = need(place(root, "fer2013"), "fer2013/fer2013.csv or icml_face_data.csv, which have the test part's labels")
    path = next((base / name for name in ("fer2013.csv", "icml_face_data.csv") if (base / name).exists()), None)
    if path is None:
        raise InputError(f"{base}: neither fer2013.csv nor icml_face_data.csv; expected one: test.csv has no labels")
    images: dict[str, list[NDArray[np.uint8]]] = {"train": [], "test": []}
    labels: dict[str, list[int]] = {"train": [], "test": []}
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            for line in csv.DictReader(stream, skipinitialspace=True):
                cells = {str(name).strip(): value for name, value in line.items()}
                split = USAGE.get(cells.get("Usage") or "")
                pixels = np.array((cells.get("pixels") or "").split(), dtype="U4").astype(np.int64)
                label = cells.get("emotion") or ""
                if split is None or not label.isascii() or not label.isdigit() or len(pixels) != FACE * FACE:
                    raise ValueError(f"a line with emotion {label or 'none'}, {len(pixels)} pixels, or no known Usage")
                if pixels.min() < 0 or pixels.max() > 255:
                    raise ValueError(f"a pixel of {pixels.max()}")
                images[split].append(pixels.astype(np.uint8).reshape(FACE, FACE))
                labels[split].append(int(label))
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path}: {shown(str(error))}; expected emotion, Usage, {FACE * FACE} pixels a line") from None
    for split, split_labels in labels.items():
        if not split_labels:
            raise InputError(f"{path}: no pictures of {split}; expected Training, PublicTest and PrivateTest")
    splits = {
        split: checked(np.stack(images[split]), np.array(labels[split], np.int64), path, (3,), len(named("fer2013")))
        for split in images
    }
    return whole("fer2013", splits, path)


def food101(root: Path) -> Layout:
    base = need(place(root, "food101"), "food-101/{images,meta}")
    known = named("food101")

    def part(split: str) -> Rows:
        path = need(base / f"meta/{split}.json", "the split's pictures by class")
        try:
            table = json.loads(path.read_text("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: {shown(str(error))}; expected JSON, a list of pictures a class") from None
        paths, labels = [], []
        for folder in sorted(table) if isinstance(table, dict) else []:
            name, files = folder.replace("_", " "), table[folder]
            if name not in known:
                raise InputError(f"{path}: {shown(folder)} is no class of Food-101; expected those of CLIP's prompts")
            if not isinstance(files, list) or not all(isinstance(f, str) and f.startswith(f"{folder}/") for f in files):
                raise InputError(f"{path}: {folder} has no list of its pictures; expected {folder}/NUMBER")
            paths += [str(base / "images" / f"{file}.jpg") for file in files]
            labels += [known.index(name)] * len(files)
        if not labels:
            raise InputError(f"{path}: no pictures; expected a list a class")
        return Rows(paths, np.array(labels, np.int64))

    return whole("food101", {split: part(split) for split in ("train", "test")}, base)


def renderedsst2(root: Path) -> Layout:
    base = need(place(root, "renderedsst2"), "rendered-sst2/{train,test}/{negative,positive}")
    classes, splits = split_folders(base, {"train": "train", "test": "test"})
    expect_names("renderedsst2", classes, base / "train")
    return whole("renderedsst2", splits, base, rule=UNUSED)


def like_mnist(task: str, prefixes: dict[str, str], more: str = "") -> Callable[[Path], Layout]:
    def layout(root: Path) -> Layout:
        base = place(root, task) / "raw"
        need(base, f"raw with {prefixes['train']}-images-idx3-ubyte and the other three")
        digits = whole(task, idx_splits(base, prefixes), base)
        digits.split_rule += more
        return digits

    return layout


PLAIN = {"train": "train", "test": "t10k"}
FURTHER: dict[str, Callable[[Path], Layout]] = {  # six, then six, in the order of the field
    "cifar100": cifar100,
    "stl10": stl10,
    "flowers102": flowers102,
    "oxfordiiitpet": oxfordiiitpet,
    "pcam": pcam,
    "fer2013": fer2013,
    "emnist": like_mnist("emnist", {"train": "emnist-digits-train", "test": "emnist-digits-test"}, TURNED),
    "cifar10": cifar10,
    "food101": food101,
    "fashionmnist": like_mnist("fashionmnist", PLAIN),
    "renderedsst2": renderedsst2,
    "kmnist": like_mnist("kmnist", PLAIN),
}
FURTHER_PLACES = {
    "cifar100": "cifar-100-python",
    "stl10": "stl10/stl10_binary",
    "flowers102": "flowers102/flowers-102",
    "oxfordiiitpet": "OxfordIIITPet/oxford-iiit-pet",
    "pcam": "PCAM/pcam",
    "fer2013": "FER2013/fer2013",
    "emnist": "EMNIST/EMNIST",
    "cifar10": "cifar-10-batches-py",
    "food101": "food101/food-101",
    "fashionmnist": "FashionMNIST/FashionMNIST",
    "renderedsst2": "RenderedSST2/rendered-sst2",
    "kmnist": "KMNIST/KMNIST",
}
