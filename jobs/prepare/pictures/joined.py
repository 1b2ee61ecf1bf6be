# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Packed sets of pictures as one, which has the classes of all: what a small model is pre-trained on."""

import argparse
from contextlib import ExitStack
from pathlib import Path

import h5py
import numpy as np

from errors import InputError
from packed import COUNTS_TITLE, Say, check_task, counts_line, write_head, write_whole, write_words
from pictures.parts import Source, data_set, keep_inputs, opened
from splits import SPLIT_NAMES

SAME = ("mean", "std")  # attributes by which a model's input is normalised


def names_of(sources: list[Source]) -> list[str]:
    """Names all classes in the sets' order. A class that two sets have is named with its set."""
    every = [name for source in sources for name in source.class_names]
    return [
        f"{source.attributes['task']}: {name}" if every.count(name) > 1 else name
        for source in sources
        for name in source.class_names
    ]


def check(paths: list[Path], sources: list[Source]) -> None:
    if len(paths) < 2 or len({path.resolve() for path in paths}) < len(paths):
        raise InputError(f"{' '.join(map(str, paths))}: expected two packed tasks or more, none of them twice")
    first = sources[0]
    for path, source in zip(paths, sources, strict=True):
        shape, wanted = source.file["train/inputs"].shape[1:], first.file["train/inputs"].shape[1:]
        if shape != wanted:
            raise InputError(f"{path}: pictures of {shape}; expected {wanted}, as in {paths[0]}")
        for name in SAME:
            if not np.array_equal(source.attributes[name], first.attributes[name]):
                raise InputError(f"{path}: has another {name} than {paths[0]}")


def head_of(paths: list[Path], sources: list[Source]) -> tuple[np.ndarray, float]:
    """The sets' text embeddings, one below the other, and their scale."""
    rows, scales = [], []
    for path, source in zip(paths, sources, strict=True):
        kind = source.file["head"].attrs.get("kind", "cosine") if "head" in source.file else "missing"
        if kind != "cosine":
            raise InputError(f"{path}: its head is {kind}; expected cosine, or --classifier to do without")
        weight = data_set(path, source.file, "head/weight")
        scale = np.asarray(weight.attrs.get("logit_scale", np.nan))
        if weight.dtype.kind != "f" or weight.ndim != 2 or len(weight) != len(source.class_names):
            expected = f"floats [{len(source.class_names)}, features]"
            raise InputError(f"{path}:/head/weight: {weight.dtype} {list(weight.shape)}; expected {expected}")
        if scale.shape != () or scale.dtype.kind != "f" or not np.isfinite(scale) or scale <= 0:
            raise InputError(f"{path}:/head/weight: logit_scale is {scale.tolist()}; expected a number above 0")
        rows.append(source.read("head/weight"))
        scales.append(float(scale))
        if rows[-1].shape[1] != rows[0].shape[1] or scales[-1] != scales[0]:
            raise InputError(f"{path}: its head is of another width or scale than that of {paths[0]}")
    return np.concatenate(rows), scales[0]


def prepare(options: argparse.Namespace, say: Say) -> None:
    check_task(options.task)
    if options.pictures < 1:
        raise InputError(f"--pictures {options.pictures}: expected 1 or more")
    with ExitStack() as stack:
        sources = [stack.enter_context(opened(path)) for path in options.inputs]
        check(options.inputs, sources)
        names = names_of(sources)
        firsts = np.cumsum([0, *(len(source.class_names) for source in sources)])
        head = None if options.classifier else head_of(options.inputs, sources)
        counts = []

        def fill(file: h5py.File) -> None:
            for name in ("modality", *SAME):
                file.attrs[name] = sources[0].attributes[name]
            for name in ("source", "license"):
                file.attrs[name] = "; ".join(dict.fromkeys(source.attributes[name] for source in sources))
            file.attrs["task"] = options.task
            for split in SPLIT_NAMES:
                inputs, labels = [], []
                for source, first in zip(sources, firsts, strict=False):
                    rows = source.rows(split, range(len(source.class_names)), options.pictures)
                    inputs.append(source.read(f"{split}/inputs")[rows])
                    labels.append(source.read(f"{split}/labels")[rows] + first)
                file[f"{split}/inputs"], file[f"{split}/labels"] = np.concatenate(inputs), np.concatenate(labels)
                counts.append(sum(map(len, labels)))
            if head is None:
                write_words(file, names, np.arange(len(names)), names)
            else:
                write_head(file, *head, names)

        path = options.out / f"{options.task}.h5"
        keep_inputs(options.inputs, [path], options.replace)
        write_whole(path, fill, options.replace)
        say(COUNTS_TITLE)
        say(counts_line(options.task, counts, len(names)))
