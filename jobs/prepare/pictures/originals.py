# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' eight image tasks and their control, and twelve further ones, from the field's folders to packed files.

The pictures are CLIP's own input: shorter side by bicubic resizing, centre crop. The papers train on random crops of
at least 90 % of the area, which a packed file cannot hold: the training split has the centre crop too, and
random_crop of an experiment's [finetune] crops that, where the papers' code crops the whole picture.
"""

import argparse
import hashlib
import os
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import packed
import walk
from errors import InputError
from formats import read_npz
from packed import Say, already_built
from pictures import clip_text, further, layouts
from pictures.facts import FACTS
from pictures.layouts import CONTROL, LAYOUTS, PLACES, SETS
from pictures.picture import Picture, Unreadable, centre_crop, in_blocks, read
from pictures.rows import Layout, Rows, Stored
from splits import SPLIT_NAMES, VALIDATION_FRACTION, VALIDATION_MOST
from texts.minilm import unit_rows

PIXELS_MOST = 256_000_000  # SUN397 holds scans of the size of posters


MNIST_ROWS, MNIST_FIRST = 60_000, 36044  # the papers' code asserts this first train row of its split of MNIST


def permutation(count: int) -> NDArray[np.int64]:
    """The order from which the papers' random_split takes train, then validation (seed 0).

    Raises InputError where this PyTorch draws otherwise than the papers', whatever the data set.
    """
    import torch

    def drawn(rows: int) -> NDArray[np.int64]:
        return torch.randperm(rows, generator=torch.Generator().manual_seed(0)).numpy()

    if (first := int(drawn(MNIST_ROWS)[0])) != MNIST_FIRST:
        raise InputError(
            f"torch {torch.__version__}: its seeded split of MNIST starts with train row {first}; expected "
            f"{MNIST_FIRST}, as in the papers: another draw mixes their train and validation"
        )
    return drawn(count)


def deal(layout: Layout) -> dict[str, Rows]:
    """All three splits. Validation is min(10 %, 5000) of train where the set itself has none, as in the papers.

    The control task may have its validation folder alone, for not everyone keeps the 140 GB of its training folder.
    Of the 50,000 pictures 5000 are then validation, 5000 train (the τJp regularised regimes take inputs of it, but no
    labels) and 40,000 test; no split shares a picture with another.
    """
    splits = dict(layout.splits)
    given = splits.get("train", splits["test"])
    order = permutation(len(given.labels))
    drawn = min(int(VALIDATION_FRACTION * len(order)), VALIDATION_MOST)
    if "train" not in splits:
        kept = len(order) - 2 * drawn
        return {
            "train": given.take(order[kept : kept + drawn]),
            "validation": given.take(order[kept + drawn :]),
            "test": given.take(np.sort(order[:kept])),
        }
    if "validation" not in splits:
        splits["train"] = given.take(order[: len(order) - drawn][: layout.train_most])
        splits["validation"] = given.take(order[len(order) - drawn :])
    return splits


def render(item: str | NDArray[np.uint8], size: int) -> Picture:
    if isinstance(item, np.ndarray):
        return centre_crop(Image.fromarray(item), size)
    try:
        return read(Path(item), partial(centre_crop, size=size))
    except Unreadable as reason:
        raise InputError(f"{item}: {reason}") from None


def stream(rows: Rows, size: int) -> packed.Stream:
    return packed.Stream(
        (len(rows.items), size, size, 3), lambda: in_blocks(rows.items, lambda item: render(item, size))
    )


# What decides which bytes are written; packages' versions apart
CODE = ("packed.py", "splits.py", "walk.py", "formats.py", "texts/minilm.py", "checkpoints/opcodes.py")
CODE += ("pictures/originals.py", "pictures/originals.toml", "pictures/layouts.py", "pictures/imagenet_names.py")
CODE += ("pictures/picture.py", "pictures/clip_text.py", "pictures/facts.py", "pictures/rows.py", "pictures/further.py")
CODE += ("pictures/further.toml", "pictures/cifar.py")


def stamp(path: str | os.PathLike[str]) -> str:
    status = os.stat(path)
    return f"{status.st_size} {status.st_mtime_ns}"


def origin(layout: Layout, splits: dict[str, Rows], root: Path, head: list[str], size: int) -> str:
    """The digest of all that a packed file is made from, where pictures count by name, size and time: equal digests
    mean equal files."""
    summed = hashlib.sha256(packed.code(CODE))
    summed.update(repr((layout.class_names, layout.split_rule, head, size)).encode())
    for split in SPLIT_NAMES:
        rows = splits[split]
        summed.update(rows.labels.tobytes())
        if isinstance(rows.items, np.ndarray):
            summed.update(repr(rows.items.shape).encode() + np.ascontiguousarray(rows.items).tobytes())
        elif isinstance(rows.items, Stored):
            summed.update(stamp(rows.items.path).encode() + rows.items.rows.tobytes())
        else:
            for path in rows.items:
                summed.update(f"{os.path.relpath(path, root)} {stamp(path)}\n".encode("utf-8", "surrogateescape"))
    return summed.hexdigest()


class Heads:
    """Zero-shot heads, from a text tower or from the files of `convert-checkpoints`; or none."""

    def __init__(self, text_model: str | None, folder: Path | None, none: bool = False) -> None:
        if (text_model is not None) + (folder is not None) + none != 1:
            raise InputError(
                "--text-model, --heads, --no-heads: expected one of them: a CLIP model (a folder or "
                "openai/clip-vit-base-patch32), the folder RUN/heads that convert-checkpoints writes, or none, for "
                "models that bring a classifier"
            )
        self.none = none
        self.folder = folder
        given = "none" if none else text_model or str(folder)
        self.source = Path(given).resolve().name if Path(given).exists() and not none else given
        self.text_model = text_model

    @cached_property
    def tower(self) -> clip_text.TextTower | None:
        """Read when the first head is wanted: a call that finds all files finished needs none."""
        return clip_text.load(self.text_model) if self.text_model else None

    def stamps(self, task: str) -> list[str]:
        """Says what a task's head is made from: the file, or the model's name and, if that is a folder, its files."""
        if self.none:
            return [self.source]
        if self.folder is not None:
            path = self.folder / f"{task}.npz"
            return [self.source, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""]
        model = Path(self.text_model or "").expanduser()
        inside = sorted(path for path in model.iterdir() if path.is_file()) if model.is_dir() else []
        return [self.source, *(f"{path.name} {stamp(path)}" for path in inside)]

    def __call__(self, task: str, names: list[str]) -> tuple[NDArray[np.float32] | None, float]:
        if self.none:
            return None, 1.0
        facts = FACTS[task]
        if self.tower:
            more = facts.get("further_names", {})
            return clip_text.head(self.tower, names, facts["templates"], more), self.tower.logit_scale
        assert self.folder is not None
        path = self.folder / f"{task}.npz"
        arrays: dict[str, Any] = read_npz(path)
        weight, scale = arrays.get("weight"), arrays.get("logit_scale")
        if weight is None or scale is None or scale.shape != () or not np.isfinite(scale) or scale <= 0:
            raise InputError(f"{path}: holds {', '.join(arrays)}; expected weight [classes, features] and logit_scale")
        if weight.ndim != 2 or weight.dtype.kind != "f" or len(weight) != len(names):
            raise InputError(
                f"{path}: weight {weight.dtype} {list(weight.shape)}; expected floats [{len(names)}, features], "
                f"a row for each of {task}'s classes"
            )
        return unit_rows(weight), float(scale)


def chosen(only: str | None, root: Path, names_file: Path | None, say: Say) -> list[str]:
    """The tasks asked for, a set of them by its name; without --only those whose folders are there."""
    if only is not None:
        words = [word.strip() for word in only.split(",") if word.strip()]
        tasks = list(dict.fromkeys(task for word in words for task in SETS.get(word, [word])))
        for task in tasks:
            if task not in PLACES:
                known = ",".join([*SETS, *PLACES])
                raise InputError(f"--only {only}: {task} is not known; expected some of {known}")
        return tasks
    tasks = []
    for task, place in PLACES.items():
        folder = further.place(root, task) if task in further.FURTHER else root / place
        if not folder.exists():
            say(f"{task}: left out, {root / place} is not there")
        elif task == CONTROL and names_file is None:
            say(f"{task}: left out, its class names are wanted too (--imagenet-classes FILE)")
        else:
            tasks.append(task)
    if not tasks:
        raise InputError(f"{root}: none of the data sets; expected some of {', '.join(PLACES.values())}")
    return tasks


def prepare(options: argparse.Namespace, say: Say) -> None:
    Image.MAX_IMAGE_PIXELS = PIXELS_MOST
    root: Path = options.data_location.expanduser()
    if not root.is_dir():
        raise InputError(f"{root}: not a folder; expected --data-location with {', '.join(PLACES.values())}")
    tasks = chosen(options.only, root, options.imagenet_classes, say)
    heads = Heads(options.text_model, options.heads, options.no_heads)
    for task in tasks:
        say(pack(task, root, heads, options))


def pack(task: str, root: Path, heads: Heads, options: argparse.Namespace) -> str:
    facts = FACTS[task]
    layout = layouts.imagenet(root, options.imagenet_classes) if task == CONTROL else LAYOUTS[task](root)
    splits = deal(layout)
    path = options.out / f"{task}.h5"
    counts = ", ".join(f"{len(splits[split].labels)} {split}" for split in SPLIT_NAMES)
    left_out = sum((rows.left_out for rows in layout.splits.values()), walk.LeftOut())
    summary = f"{path}: {len(layout.class_names)} classes; {counts}{walk.closing(left_out)}"
    made_from = origin(layout, splits, root, heads.stamps(task), options.image_size)
    if already_built(path, made_from):
        return f"{summary} (unchanged)"
    head, logit_scale = heads(task, layout.class_names)
    packed.write(
        packed.Packed(
            task=task,
            source=f"{facts['source']} ({PLACES[task]})",
            license=f"terms of the data set's authors: {facts['source']}",
            class_names=layout.class_names,
            inputs={split: stream(rows, options.image_size) for split, rows in splits.items()},
            labels={split: rows.labels for split, rows in splits.items()},
            head=head,
            logit_scale=logit_scale,
            mean=packed.CLIP_MEAN,
            std=packed.CLIP_STD,
            attributes={
                "title": facts["title"],
                "head_source": heads.source,
                "split_rule": layout.split_rule,
                "role": "control" if task == CONTROL else "task",
                "built_from": made_from,
            },
        ),
        path,
    )
    return summary
