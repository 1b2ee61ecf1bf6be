# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The user's own pictures as they lie on disk: folders, IDX files and numpy arrays."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import walk
from errors import InputError
from formats import read_idx, read_npy, read_npz
from pictures.picture import Picture, Unreadable, centre_crop, eight_bits, fit, in_blocks, pad_grey, read, upright
from splits import TEST, TRAIN, VALIDATION

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"}
SPLIT_FOLDERS = {
    "train": TRAIN,
    "training": TRAIN,
    "val": VALIDATION,
    "valid": VALIDATION,
    "validation": VALIDATION,
    "test": TEST,
}
ARRAY_SPLITS = {"train": TRAIN, "validation": VALIDATION, "val": VALIDATION, "test": TEST}
KERAS = {"x": "images", "y": "labels"}  # Keras' names of arrays, alone or as in x_train
CLASSES_MOST = 100_000


@dataclass(frozen=True)
class Frame:
    """How a picture becomes a square of `size`: whole on a plain ground, or as CLIP crops it."""

    size: int
    clip: bool = False
    white: float | None = None  # of files with more than 8 bits, see eight_bits(), and of arrays, see to_pictures()

    def file(self, path: Path) -> Picture:
        try:
            return read(path, lambda image: self.image(eight_bits(upright(image), self.white)))
        except Unreadable as reason:
            raise InputError(f"{path}: {reason}") from None

    def image(self, image: Image.Image, background: int = 255) -> Picture:
        return centre_crop(image, self.size) if self.clip else fit(image, self.size, background)

    def array(self, values: NDArray[np.uint8]) -> Picture:
        """[h,w] or [h,w,c]; grey is repeated, alpha shows white."""
        grey = values.ndim == 2
        if grey and not self.clip and max(values.shape) <= self.size < 2 * max(values.shape):
            return pad_grey(values[None], self.size)[0]  # a frame round 28 × 28 is kinder than blur
        return self.image(Image.fromarray(values), 0 if grey else 255)


@dataclass
class Pictures:
    """What the user gave, not decoded yet; `split` is −1 where the input names no split."""

    items: Sequence[Path | NDArray[np.uint8]]
    labels: NDArray[np.int64]
    split: NDArray[np.int64]
    frame: Frame
    folders: list[str] | None = None  # of the classes, in the order of their labels
    left_out: walk.LeftOut = field(default_factory=walk.LeftOut)

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[Picture]:
        return in_blocks([self.items[row] for row in rows], self.render)

    def render(self, item: Path | NDArray[np.uint8]) -> Picture:
        return self.frame.array(item) if isinstance(item, np.ndarray) else self.frame.file(item)


# Folders


def read_folder(root: Path, frame: Frame) -> Pictures:
    if not root.is_dir():
        raise InputError(f"{root}: not a folder; expected DIR/{{train,val,test}}/CLASS/* or DIR/CLASS/*")
    inside, beside, left_out = walk.held(root)
    left_out += walk.LeftOut({walk.OTHER: len(beside)})
    by_split = [(SPLIT_FOLDERS[name.lower()], root / name) for name in inside if name.lower() in SPLIT_FOLDERS]
    if by_split and len(by_split) < len(inside):
        other = next(name for name in inside if name.lower() not in SPLIT_FOLDERS)
        raise InputError(
            f"{root}: {other} stands beside {by_split[0][1].name}; expected only train, val, test, or only classes"
        )
    if by_split and TRAIN not in {split for split, _ in by_split}:
        raise InputError(f"{root}: no folder train beside {by_split[0][1].name}; expected DIR/train/CLASS/*")
    if len({split for split, _ in by_split}) < len(by_split):
        raise InputError(f"{root}: two folders of one split; expected one of train, val and test each")
    parts = by_split or [(-1, root)]
    names_by_part = {part: walk.classes(part) for _, part in parts}
    names = sorted({name for part_names in names_by_part.values() for name in part_names})
    if len(names) < 2:
        raise InputError(f"{root}: {len(names)} class folders; expected at least two, each with pictures")
    learnt = next(names_by_part[part] for which, part in parts if which in (-1, TRAIN))
    for part, part_names in names_by_part.items():
        if strange := sorted(set(part_names) - set(learnt)):
            raise InputError(f"{part / strange[0]}: train has no such class; expected some of its {len(learnt)}")
    items: list[Path] = []
    labels, split = [], []
    for which, part in parts:
        if by_split:
            _, beside, hidden = walk.held(part)
            left_out += hidden + walk.LeftOut({walk.OTHER: len(beside)})
        for name in names_by_part[part]:
            files, left_out_inside = walk.files(part / name, SUFFIXES)
            left_out += left_out_inside
            if not files and which in (-1, TRAIN):
                raise InputError(f"{part / name}: no pictures; expected {', '.join(sorted(SUFFIXES))}")
            items += sorted(map(Path, files))
            labels += [names.index(name)] * len(files)
            split += [which] * len(files)
        if which not in split:
            raise InputError(f"{part}: no pictures; expected {', '.join(sorted(SUFFIXES))} in its classes' folders")
    return Pictures(items, np.array(labels, np.int64), np.array(split, np.int64), frame, names, left_out)


# Arrays


CHANNELS = (1, 3, 4)


def to_pictures(array: NDArray[Any], where: str, white: float | None) -> NDArray[np.uint8]:
    """uint8 [n,h,w] or [n,h,w,c] with c 3 or 4, of arrays that may have their channels first. Other numbers than uint8
    need `white`, the value of white; 0 is black."""
    if array.ndim == 4 and array.shape[1] in CHANNELS and array.shape[3] not in CHANNELS:
        array = array.transpose(0, 2, 3, 1)
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] not in CHANNELS) or 0 in array.shape[1:]:
        raise InputError(
            f"{where}: shape {list(array.shape)}; expected [n,h,w], or [n,h,w,c] or [n,c,h,w] with c 1, 3 or 4"
        )
    if array.dtype != np.uint8 or white is not None:
        if array.dtype.kind not in "iuf":
            raise InputError(f"{where}: {array.dtype}; expected uint8 numbers, 0 to 255")
        low, high = (array.min(), array.max()) if array.size else (0, 0)
        if white is None or not 0 <= low <= high <= white:
            scale = "whose white is not said" if white is None else f"where white is {white:g}"
            raise InputError(
                f"{where}: {array.dtype} numbers from {low:g} to {high:g}, {scale}; expected uint8, 0 to 255, or "
                "--white with the value that is white"
            )
        array = np.stack([np.rint(picture.astype(np.float64) * (255 / white)).astype(np.uint8) for picture in array])
    return array[..., 0] if array.ndim == 4 and array.shape[3] == 1 else array


def to_labels(array: NDArray[Any], where: str, count: int) -> NDArray[np.int64]:
    """Whole numbers, −1 where a picture has no label."""
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"{where}: {array.dtype} {list(array.shape)}; expected whole numbers [n]")
    if len(array) != count:
        raise InputError(f"{where}: {len(array)} labels for {count} pictures; expected as many")
    if count and (int(array.min()) < -1 or int(array.max()) >= CLASSES_MOST):
        raise InputError(f"{where}: labels {array.min()} to {array.max()}; expected 0 to {CLASSES_MOST - 1}")
    return array.astype(np.int64)


def join(
    parts: Sequence[tuple[int, str, NDArray[Any], str, NDArray[Any]]], frame: Frame, left_out: walk.LeftOut
) -> Pictures:
    items: list[NDArray[np.uint8]] = []
    labels, split = [], []
    for which, image_name, image_array, label_name, label_array in parts:
        items += list(to_pictures(image_array, image_name, frame.white))
        labels.append(to_labels(label_array, label_name, len(image_array)))
        split.append(np.full(len(image_array), which, np.int64))
    return Pictures(items, np.concatenate(labels), np.concatenate(split), frame, left_out=left_out)


def read_idx_folder(root: Path, frame: Frame) -> Pictures:
    if not root.is_dir():
        raise InputError(f"{root}: not a folder; expected one with train-images-idx3-ubyte[.gz] and its labels")

    _, entries, left_out = walk.held(root)

    def find(prefix: str, kind: str) -> Path | None:
        name = re.compile(rf"{prefix}[-_]{kind}[-.]idx\d[-_]ubyte(\.gz)?")
        return next((Path(entry.path) for entry in entries if name.fullmatch(entry.name)), None)

    parts = []
    for prefix, which in (
        ("train", TRAIN),
        ("val", VALIDATION),
        ("validation", VALIDATION),
        ("t10k", TEST),
        ("test", TEST),
    ):
        images, labels = find(prefix, "images"), find(prefix, "labels")
        if images is None and labels is None:
            continue
        if images is None or labels is None:
            raise InputError(
                f"{root}: {(images or labels)} has no partner; expected both {prefix}-images and {prefix}-labels"
            )
        parts.append((which, str(images), read_idx(images), str(labels), read_idx(labels)))
    if not parts or parts[0][0] != TRAIN:
        raise InputError(f"{root}: no train-images-idx3-ubyte[.gz]; expected MNIST-style names")
    return join(parts, frame, left_out + walk.LeftOut({walk.OTHER_NAMES: len(entries) - 2 * len(parts)}))


def read_arrays(path: Path, frame: Frame) -> Pictures:
    if path.is_dir():
        _, entries, left_out = walk.held(path)
        chosen = [Path(entry.path) for entry in entries if entry.name.endswith(".npy")]
        left_out += walk.LeftOut({walk.OTHER: len(entries) - len(chosen)})
        arrays = {file.stem: read_npy(file) for file in chosen}
    elif path.suffix == ".npz":
        arrays, left_out = read_npz(path), walk.LeftOut()
    else:
        raise InputError(f"{path}: neither a .npz file nor a folder with .npy files; expected one of these")
    held = ", ".join(arrays) or "nothing"
    for name in [name for name in arrays if name.lower().partition("_")[0] in KERAS]:
        which, _, split = name.lower().partition("_")
        if arrays.setdefault(f"{split}_{KERAS[which]}".lstrip("_"), arrays[name]) is not arrays[name]:
            raise InputError(f"{path}: holds {held}; expected {name} or its other name, not both")
        del arrays[name]
    parts = []
    if "images" in arrays or "labels" in arrays:
        if not {"images", "labels"} <= set(arrays):
            raise InputError(f"{path}: holds {held}; expected both images and labels")
        parts.append((-1, f"{path}:images", arrays["images"], f"{path}:labels", arrays["labels"]))
    else:
        for name, which in ARRAY_SPLITS.items():
            pair = (f"{name}_images", f"{name}_labels")
            there = [key for key in pair if key in arrays]
            if len(there) == 1:
                raise InputError(f"{path}: holds {there[0]} without its partner; expected {pair[0]} and {pair[1]}")
            if there:
                parts.append((which, f"{path}:{pair[0]}", arrays[pair[0]], f"{path}:{pair[1]}", arrays[pair[1]]))
        if not parts or parts[0][0] != TRAIN:
            raise InputError(f"{path}: holds {held}; expected images and labels, or train_images and train_labels")
    return join(parts, frame, left_out)
