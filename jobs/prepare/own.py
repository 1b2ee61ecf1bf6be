"""The user's own data: folders of pictures, IDX files and numpy arrays to the same packed file."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import minilm
import packed
from errors import InputError
from formats import read_idx, read_npy, read_npz
from packed import Packed
from picture import Picture, decode, fit
from splits import SPLIT_NAMES, TEST, TRAIN, VALIDATION, shuffled_rows, split_by_key, stable_hash

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
TEMPLATES = ["a picture of {}", "{}"]
CLASSES_MOST = 100_000


@dataclass
class Pictures:
    """What the user gave; `split` is −1 where the input names no split."""

    images: Picture
    labels: NDArray[np.int64]
    split: NDArray[np.int64]
    class_names: list[str] | None = None


# Folders


def class_folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def read_folder(root: Path, size: int) -> Pictures:
    if not root.is_dir():
        raise InputError(f"{root}: not a folder; expected DIR/{{train,val,test}}/CLASS/* or DIR/CLASS/*")
    inside = class_folders(root)
    by_split = [(SPLIT_FOLDERS[path.name.lower()], path) for path in inside if path.name.lower() in SPLIT_FOLDERS]
    if by_split and len(by_split) < len(inside):
        other = next(path.name for path in inside if path.name.lower() not in SPLIT_FOLDERS)
        raise InputError(
            f"{root}: {other} stands beside {by_split[0][1].name}; expected only train, val, test, or only classes"
        )
    if by_split and TRAIN not in {split for split, _ in by_split}:
        raise InputError(f"{root}: no folder train beside {by_split[0][1].name}; expected DIR/train/CLASS/*")
    parts = by_split or [(-1, root)]
    names = sorted({each.name for _, part in parts for each in class_folders(part)})
    if len(names) < 2:
        raise InputError(f"{root}: {len(names)} class folders; expected at least two, each with pictures")
    images: list[Picture] = []
    labels, split = [], []
    for which, part in parts:
        for folder in class_folders(part):
            before = len(images)
            for path in sorted(folder.rglob("*")):
                if path.suffix.lower() in SUFFIXES and path.is_file():
                    image = decode(path, size)
                    if image is None:
                        raise InputError(
                            f"{path}: not a readable picture; expected PNG, JPEG or the like, below 64 megapixels"
                        )
                    images.append(image)
                    labels.append(names.index(folder.name))
                    split.append(which)
            if len(images) == before and which in (-1, TRAIN):
                raise InputError(f"{folder}: no pictures; expected {', '.join(sorted(SUFFIXES))}")
    return Pictures(
        np.stack(images), np.array(labels, np.int64), np.array(split, np.int64), [n.replace("_", " ") for n in names]
    )


# Arrays


def to_pictures(array: NDArray[Any], where: str, size: int) -> Picture:
    """uint8 [n,h,w] or [n,h,w,c] to RGB [n,size,size,3]; grey is repeated, alpha shows white."""
    if array.dtype != np.uint8:
        raise InputError(f"{where}: {array.dtype} numbers; expected uint8, 0 to 255")
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] not in (1, 3, 4)) or 0 in array.shape[1:]:
        raise InputError(f"{where}: shape {list(array.shape)}; expected [n,h,w] or [n,h,w,c] with c 1, 3 or 4")
    if array.ndim == 4 and array.shape[3] == 1:
        array = array[..., 0]
    grey = array.ndim == 3
    background = 0 if grey else 255
    out = np.empty((len(array), size, size, 3), np.uint8)
    small = max(array.shape[1:3]) <= size < 2 * max(array.shape[1:3])
    for row, image in enumerate(array):
        if small and grey:  # a frame round 28 × 28 is kinder than blur
            top, left = (size - image.shape[0]) // 2, (size - image.shape[1]) // 2
            out[row] = background
            out[row, top : top + image.shape[0], left : left + image.shape[1]] = image[..., None]
        else:
            out[row] = fit(Image.fromarray(image), size, background)
    return out


def to_labels(array: NDArray[Any], where: str, count: int) -> NDArray[np.int64]:
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"{where}: {array.dtype} {list(array.shape)}; expected whole numbers [n]")
    if len(array) != count:
        raise InputError(f"{where}: {len(array)} labels for {count} pictures; expected as many")
    if count and (int(array.min()) < 0 or int(array.max()) >= CLASSES_MOST):
        raise InputError(f"{where}: labels {array.min()} to {array.max()}; expected 0 to {CLASSES_MOST - 1}")
    return array.astype(np.int64)


def join(parts: Sequence[tuple[int, str, NDArray[Any], str, NDArray[Any]]], size: int) -> Pictures:
    images, labels, split = [], [], []
    for which, image_name, image_array, label_name, label_array in parts:
        images.append(to_pictures(image_array, image_name, size))
        labels.append(to_labels(label_array, label_name, len(image_array)))
        split.append(np.full(len(image_array), which, np.int64))
    return Pictures(np.concatenate(images), np.concatenate(labels), np.concatenate(split))


def read_idx_folder(root: Path, size: int) -> Pictures:
    if not root.is_dir():
        raise InputError(f"{root}: not a folder; expected one with train-images-idx3-ubyte[.gz] and its labels")

    def find(prefix: str, kind: str) -> Path | None:
        for path in sorted(root.iterdir()):
            if re.fullmatch(rf"{prefix}[-_]{kind}[-.]idx\d[-_]ubyte(\.gz)?", path.name):
                return path
        return None

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
    return join(parts, size)


def read_arrays(path: Path, size: int) -> Pictures:
    if path.is_dir():
        arrays = {each.stem: read_npy(each) for each in sorted(path.glob("*.npy"))}
    elif path.suffix == ".npz":
        arrays = read_npz(path)
    else:
        raise InputError(f"{path}: neither a .npz file nor a folder with .npy files; expected one of these")
    found = ", ".join(arrays) or "nothing"
    parts = []
    if "images" in arrays or "labels" in arrays:
        if not {"images", "labels"} <= set(arrays):
            raise InputError(f"{path}: holds {found}; expected both images and labels")
        parts.append((-1, f"{path}:images", arrays["images"], f"{path}:labels", arrays["labels"]))
    else:
        for name, which in ARRAY_SPLITS.items():
            pair = (f"{name}_images", f"{name}_labels")
            there = [each for each in pair if each in arrays]
            if len(there) == 1:
                raise InputError(f"{path}: holds {there[0]} without its partner; expected {pair[0]} and {pair[1]}")
            if there:
                parts.append((which, f"{path}:{pair[0]}", arrays[pair[0]], f"{path}:{pair[1]}", arrays[pair[1]]))
        if not parts or parts[0][0] != TRAIN:
            raise InputError(f"{path}: holds {found}; expected images and labels, or train_images and train_labels")
    return join(parts, size)


# From what was read to the file


def names_of_classes(given: str | None, found: list[str] | None, labels: NDArray[np.int64]) -> list[str]:
    classes = int(labels.max()) + 1
    if given is None:
        return found or [str(number) for number in range(classes)]
    path = Path(given)
    try:
        text = path.read_text().split("\n") if path.is_file() else given.split(",")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--class-names {given}: {error}; expected names, one a line") from None
    names = [name.strip() for name in text if name.strip()]
    expected = len(found) if found else classes
    if len(names) < expected or (found and len(names) != expected):
        raise InputError(f"--class-names {given}: {len(names)} names; expected {expected}, in the order of the labels")
    return names


def channels(given: Sequence[float] | None, default: Sequence[float], name: str) -> Sequence[float]:
    if given is None:
        return default
    values = list(given) * 3 if len(given) == 1 else list(given)
    if len(values) != 3 or not np.isfinite(values).all() or (name == "--std" and min(values) <= 0):
        raise InputError(
            f"{name} {' '.join(map(str, given))}: expected one or three numbers"
            + (" above 0" if name == "--std" else "")
        )
    return values


def make_head(options: argparse.Namespace, names: list[str]) -> NDArray[np.float32]:
    if options.head is not None:
        weights = read_npy(options.head)
        if weights.ndim != 2 or weights.dtype.kind != "f" or len(weights) != len(names):
            raise InputError(
                f"{options.head}: {weights.dtype} {list(weights.shape)}; "
                f"expected floats [{len(names)}, features], a row a class"
            )
        return minilm.unit_rows(weights)
    templates = options.template or TEMPLATES
    for template in templates:
        if "{}" not in template:
            raise InputError(
                f'--template "{template}": no {{}}; expected a place for the class, as in "a picture of {{}}"'
            )
    return minilm.head(names, templates)


def prepare(options: argparse.Namespace) -> str:
    """Read, split, pack and write; gives a line that says what was written."""
    task = options.task or re.sub(r"[^A-Za-z0-9_-]+", "_", options.input.resolve().stem)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", task):
        raise InputError(
            f"--task {task}: expected letters, digits, _ and -, at most 64, starting with a letter or digit"
        )
    if not (np.isfinite(options.logit_scale) and options.logit_scale > 0):
        raise InputError(f"--logit-scale {options.logit_scale}: expected a number above 0")
    mean, std = channels(options.mean, packed.MEAN, "--mean"), channels(options.std, packed.STD, "--std")
    if not options.input.exists():
        raise InputError(f"{options.input}: not found; expected a file or folder")
    read = {"folder": read_folder, "idx": read_idx_folder, "arrays": read_arrays}[options.command]
    pictures = read(options.input, options.image_size)
    if len(pictures.labels) == 0:
        raise InputError(f"{options.input}: no pictures; expected at least one a class")
    names = names_of_classes(options.class_names, pictures.class_names, pictures.labels)
    head = make_head(options, names)
    # Equal pictures are one key, so that a drawn split never has a picture on both sides.
    keys = [f"{stable_hash(image.tobytes().hex()):016x}" for image in pictures.images]
    seed = f"{task}/{options.seed}"
    given = set(pictures.split.tolist()) - {-1}
    split = split_by_key(keys, seed, pictures.split if given else None)
    rows = {each: shuffled_rows(split, which, seed) for which, each in enumerate(SPLIT_NAMES)}
    for each, some in rows.items():
        if not len(some):
            raise InputError(f"{options.input}: {len(keys)} pictures leave none for {each}; expected more pictures")
    path = options.out / f"{task}.h5"
    packed.write(
        Packed(
            task=task,
            source=options.source or options.input.name,
            license=options.license,
            class_names=names,
            inputs={each: pictures.images[some] for each, some in rows.items()},
            labels={each: pictures.labels[some] for each, some in rows.items()},
            keys={each: [keys[row] for row in some] for each, some in rows.items()},
            head=head,
            logit_scale=options.logit_scale,
            mean=mean,
            std=std,
        ),
        path,
    )
    counts = ", ".join(f"{len(some)} {each}" for each, some in rows.items())
    return f"{path}: {len(names)} classes; {counts}"
