"""The user's own data to the packed file: splits, class names, and a head from MiniLM, a CLIP or a file."""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import packed
import walk
from errors import InputError, checked_text, shown
from formats import read_npy
from labels import DROP, WITHOUT_LABEL, means_none
from packed import Packed, check_task, name_of
from pictures import clip_text
from pictures.inputs import Frame, Pictures, read_arrays, read_folder, read_idx_folder
from splits import SPLIT_NAMES, TEST, TRAIN, VALIDATION, shuffled_rows, split_by_key, stable_hash
from texts import minilm

TEMPLATES = ["a picture of {}", "{}"]
CLIP_TEMPLATES = ["a photo of a {}."]
SIZE, CLIP_SIZE = 32, 224
LOGIT_SCALE_MOST = 1e6  # that the program takes


def entries_of(given: str) -> list[str]:
    """Reads the list of --class-names, or the file that it names."""
    try:
        # Path.is_file() raises where the names are too many to be a path; this is False then.
        text = Path(given).read_text("utf-8-sig").split("\n") if os.path.isfile(given) else given.split(",")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{option(given)}: {error}; expected names, one a line, in UTF-8") from None
    return [checked_text(name.strip(), option(given)) for name in text if name.strip()]


def option(given: str) -> str:
    return f"--class-names {given if len(given) <= 80 else given[:79] + '…'}"


def names_of_classes(given: str | None, keys: list[str]) -> tuple[list[str], list[int]]:
    """Names in the order of the labels, and which entry of --class-names, or row of --head, each label has.

    An entry FOLDER=NAME names its folder. Names alone that are the folders' own may stand in any order. Other names
    alone go by number, as labels and folders called 0, 1, … or 1, 2, … have one; over folders with names of their own
    they are refused, for only their places would tell which is which.
    """
    by_number = sorted(keys, key=int) if all(key.isascii() and key.isdigit() for key in keys) else None
    if given is None:
        return ([key.replace("_", " ") for key in keys]), list(range(len(keys)))
    entries = entries_of(given)
    paired = [re.split("[=\t]", entry, maxsplit=1) for entry in entries]
    spaced = {key.replace("_", " "): key for key in keys}
    if all(len(pair) == 2 for pair in paired):
        entry_keys, names = [pair[0].strip() for pair in paired], [pair[1].strip() for pair in paired]
    elif {name.replace("_", " ") for name in entries} == set(spaced):
        entry_keys, names = [spaced[name.replace("_", " ")] for name in entries], entries
    elif by_number and [int(key) for key in by_number] in (list(range(len(keys))), list(range(1, len(keys) + 1))):
        entry_keys, names = by_number, entries
    else:
        raise InputError(
            f"{option(given)}: {len(entries)} names, and which class each is for is not said; expected FOLDER=NAME "
            f"for each of {len(keys)} classes, such as {shown(keys[0])}=NAME"
        )
    if len(names) != len(keys) or set(entry_keys) != set(keys) or not all(names):
        lacking = next((f"; {shown(key)} has none" for key in keys if key not in entry_keys), "")
        raise InputError(f"{option(given)}: {len(names)} names; expected one for each of {len(keys)} classes{lacking}")
    places = [entry_keys.index(key) for key in keys]
    return [names[place] for place in places], places


def classes_of(pictures: Pictures, options: argparse.Namespace) -> list[str]:
    """What the input calls the classes: folders' names or numbers. Pictures without a label are left out, if that is
    asked for, and the first class has the label 0 then."""
    listed = entries_of(options.class_names) if options.class_names else []
    named = {re.split("[=\t]", entry)[0].strip() for entry in listed}
    none = [label for label, name in enumerate(pictures.folders or []) if means_none(name, named)]
    without = np.isin(pictures.labels, [-1, *none])
    if without.any():
        if not options.drop_unlabelled:
            what = shown(pictures.folders[pictures.labels[without][0]]) if pictures.folders else "-1"
            raise InputError(
                f"{options.input}: {without.sum()} pictures have the label {what}, which means none in many sets; "
                f"expected {DROP}, or --class-names, which may name a folder"
            )
        kept = np.flatnonzero(~without)
        pictures.items = [pictures.items[row] for row in kept]
        pictures.labels, pictures.split = pictures.labels[kept], pictures.split[kept]
        pictures.left_out[WITHOUT_LABEL] += int(without.sum())
        if pictures.folders:
            labels, pictures.labels = np.unique(pictures.labels, return_inverse=True)
            pictures.folders = [pictures.folders[label] for label in labels]
    if not len(pictures.labels):
        raise InputError(f"{options.input}: no pictures with labels; expected at least one a class")
    if pictures.folders:
        return pictures.folders
    first, last = int(pictures.labels.min()), int(pictures.labels.max())
    if first == 1:  # a class 0 without pictures would be refused: the numbers are from 1 on
        pictures.labels = pictures.labels - 1
    return [str(number) for number in range(int(first == 1), last + 1)]


def in_two_orders(folders: list[str]) -> bool:
    """Whether numbers as names are in another order than as numbers: 10 stands before 2 then."""
    return all(name.isascii() and name.isdigit() for name in folders) and folders != sorted(folders, key=int)


def channels(given: Sequence[float] | None, default: Sequence[float], name: str) -> Sequence[float]:
    if given is None:
        return default
    with np.errstate(over="ignore"):
        stored = np.array(given, np.float32)  # as the file has them
    values = list(given) * 3 if len(given) == 1 else list(given)
    if len(values) != 3 or not np.isfinite(stored).all() or (name == "--std" and stored.min() <= 0):
        raise InputError(
            f"{name} {' '.join(map(str, given))}: expected one or three numbers"
            + (" above 0" if name == "--std" else "")
            + ", as float32 has them"
        )
    return values


def templates_of(options: argparse.Namespace, default: list[str]) -> list[str]:
    templates: list[str] = options.template or default
    for template in templates:
        if "{}" not in template:
            raise InputError(
                f'--template "{template}": no {{}}; expected a place for the class, as in "a picture of {{}}"'
            )
    return templates


def make_head(
    options: argparse.Namespace, names: list[str], places: list[int], tower: clip_text.TextTower | None
) -> tuple[NDArray[np.float32], float]:
    """Unit rows, one a class, and the scale of their logits. A file's rows are in the order of --class-names."""
    if options.head is not None:
        weights = read_npy(options.head)
        if weights.ndim != 2 or weights.dtype.kind != "f" or len(weights) != len(names):
            raise InputError(
                f"{options.head}: {weights.dtype} {list(weights.shape)}; "
                f"expected floats [{len(names)}, features], a row a class"
            )
        return minilm.unit_rows(weights[places]), packed.LOGIT_SCALE
    if tower is not None:
        return clip_text.head(tower, names, templates_of(options, CLIP_TEMPLATES)), tower.logit_scale
    return minilm.head(names, templates_of(options, TEMPLATES)), packed.LOGIT_SCALE


def stream(pictures: Pictures, rows: NDArray[np.int64]) -> packed.Stream:
    """Decoded a second time, while they are written: a user's pictures at CLIP's size need not fit into memory."""
    size = pictures.frame.size
    return packed.Stream((len(rows), size, size, 3), lambda: pictures.blocks(rows))


def prepare(options: argparse.Namespace) -> str:
    """Read, split, pack and write; gives a line that says what was written."""
    task = options.task or name_of(options.input)
    check_task(task)
    for name, value in (("--logit-scale", options.logit_scale), ("--white", options.white)):
        if value is not None and not (np.isfinite(value) and value > 0):
            raise InputError(f"{name} {value}: expected a number above 0")
    if options.logit_scale is not None and options.logit_scale > LOGIT_SCALE_MOST:
        raise InputError(f"--logit-scale {options.logit_scale:g}: expected at most {LOGIT_SCALE_MOST:g}")
    templates_of(options, TEMPLATES)
    if options.head is not None and options.text_model is not None:
        raise InputError("--head, --text-model: expected one of them, for both give the head")
    clip = options.crop == "clip" or (options.crop is None and options.text_model is not None)
    mean = channels(options.mean, packed.CLIP_MEAN if clip else packed.MEAN, "--mean")
    std = channels(options.std, packed.CLIP_STD if clip else packed.STD, "--std")
    if not options.input.exists():
        raise InputError(f"{options.input}: not found; expected a file or folder")
    tower = clip_text.load(options.text_model) if options.text_model is not None else None
    read = {"folder": read_folder, "idx": read_idx_folder, "arrays": read_arrays}[options.command]
    pictures = read(options.input, Frame(options.image_size or (CLIP_SIZE if clip else SIZE), clip, options.white))
    classes = classes_of(pictures, options)
    if options.head and options.class_names is None and pictures.folders and in_two_orders(classes):
        raise InputError(
            f"{options.head}: its rows go by the folders' order, which is {', '.join(classes[:3])} … by "
            "name, another by number; expected --class-names in the order of the rows"
        )
    names, places = names_of_classes(options.class_names, classes)
    head, logit_scale = make_head(options, names, places, tower)
    # Equal pictures are one key, so that a drawn split never has a picture on both sides.
    every = pictures.blocks(np.arange(len(pictures.labels)))
    keys = [f"{stable_hash(image.tobytes().hex()):016x}" for block in every for image in block]
    seed = f"{task}/{options.seed}"
    given = set(pictures.split.tolist()) - {-1}
    split = split_by_key(keys, seed, pictures.split if given else None)
    tested = {keys[row] for row in np.flatnonzero(split == TEST)}
    drawn = np.flatnonzero((split == VALIDATION) & (pictures.split != VALIDATION))
    for row in drawn:
        if keys[row] in tested:  # equal to a picture of the given test split
            split[row] = TRAIN
    rows = {part: shuffled_rows(split, which, seed) for which, part in enumerate(SPLIT_NAMES)}
    for part, some in rows.items():
        if not len(some):
            raise InputError(f"{options.input}: {len(keys)} pictures leave none for {part}; expected more pictures")
    if lacking := set(range(len(names))) - set(pictures.labels[rows[SPLIT_NAMES[TRAIN]]].tolist()):
        raise InputError(
            f"{options.input}: {len(keys)} pictures leave none of class {shown(names[min(lacking)])} for train; "
            "expected at least one of each class"
        )
    path = options.out / f"{task}.h5"
    packed.write(
        Packed(
            task=task,
            source=options.source or shown(options.input.name),
            license=options.license,
            class_names=names,
            inputs={part: stream(pictures, some) for part, some in rows.items()},
            labels={part: pictures.labels[some] for part, some in rows.items()},
            keys={part: [keys[row] for row in some] for part, some in rows.items()},
            head=head,
            logit_scale=options.logit_scale or logit_scale,
            mean=mean,
            std=std,
            attributes={"head_source": Path(options.text_model).name} if options.text_model else None,
        ),
        path,
        options.replace,
    )
    counts = ", ".join(f"{len(some)} {part}" for part, some in rows.items())
    return f"{path}: {len(names)} classes; {counts}{walk.closing(pictures.left_out)}"
