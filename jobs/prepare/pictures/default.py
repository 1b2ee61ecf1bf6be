"""The default tasks: from installed packages to packed files."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

import packed
from errors import InputError
from pictures import declare, sources
from pictures.declare import Declaration
from splits import SPLIT_NAMES, TEST, TRAIN, merge_keys, shuffled_rows, split_by_key
from texts import minilm

LOGIT_SCALE = 50.0  # two thirds of the 75 at which the default model's pre-training ends (see its card)
CODE = ("pictures/default.py", "pictures/sources.py", "splits.py", "pictures/picture.py", "packed.py", "formats.py")
CODE += ("texts/minilm.py", "texts/model.py")


@dataclass
class Task:
    """A task's pictures and the rows of each split, in the order in which they are written."""

    declaration: Declaration
    examples: sources.Examples
    rows: dict[str, NDArray[np.int64]]
    keys: list[str]


def gather(name: str) -> Task:
    """Read a task's pictures and split them."""
    declaration = declare.read(name)
    examples = sources.SOURCES[name](declaration)
    labelled = np.asarray(examples.labels) >= 0
    if examples.fixed is None:
        keys = merge_keys(examples.keys, examples.images)
        labelled &= ~contradicted(examples)
        inside = np.flatnonzero(labelled)
        split = np.full(len(keys), -1, np.int64)
        split[inside] = split_by_key([keys[row] for row in inside], name)
    else:
        keys = examples.keys
        tested = {keys[row] for row in np.flatnonzero(examples.fixed == TEST)}
        labelled &= np.array([examples.fixed[row] == TEST or key not in tested for row, key in enumerate(keys)])
        inside = np.flatnonzero(labelled)
        split = np.full(len(keys), -1, np.int64)
        split[inside] = split_by_key([keys[row] for row in inside], name, examples.fixed[inside])
    rows = {
        part: shuffled_rows(split, which, name, declaration.caps.get(part)) for which, part in enumerate(SPLIT_NAMES)
    }
    return Task(declaration, examples, rows, keys)


def contradicted(examples: sources.Examples) -> NDArray[np.bool_]:
    """Pictures that stand, equal to the last byte, under two labels: no answer to them is right."""
    digests = [hashlib.sha256(image.tobytes()).digest() for image in examples.images]
    labels_of: dict[bytes, set[int]] = {}
    for digest, label in zip(digests, examples.labels, strict=True):
        if label >= 0:
            labels_of.setdefault(digest, set()).add(label)
    return np.array([len(labels_of.get(digest, ())) > 1 for digest in digests])


def pack(task: Task) -> packed.Packed:
    labels = np.asarray(task.examples.labels, np.int64)
    declaration = task.declaration
    return packed.Packed(
        task=declaration.name,
        source=declaration.source,
        license=declaration.license,
        class_names=[each.name for each in declaration.classes],
        inputs={part: task.examples.images[rows] for part, rows in task.rows.items()},
        labels={part: labels[rows] for part, rows in task.rows.items()},
        keys={part: [task.keys[row] for row in rows] for part, rows in task.rows.items()},
        head=minilm.head([each.phrase for each in declaration.classes], declaration.templates),
        logit_scale=LOGIT_SCALE,
        attributes={
            "title": declaration.title,
            "label": declaration.label,
            "split_rule": declaration.split_key,
            "role": "control" if declaration.control else "task",
            "built_from": digest(declaration),
        },
    )


def digest(declaration: Declaration) -> str:
    """The digest of the declaration and of the code that builds from it: equal digests mean equal files."""
    return hashlib.sha256(declaration.digest.encode() + packed.code(CODE)).hexdigest()


def summary(path: Path) -> str:
    with h5py.File(path) as file:
        counts = [len(file[f"{part}/labels"]) for part in SPLIT_NAMES]
        classes = len(file["class_names"])
        test = Counter(file["test/labels"][:].tolist())
        share = max(test.values()) / counts[TEST]
    return f"{packed.counts_line(path.stem, counts, classes)}, largest {share:.2f} of test"


def default(out: Path, only: list[str], say: packed.Say) -> None:
    """Build every declared task (or those in `only`) into `out`/TASK.h5."""
    known = declare.names()
    for name in only:
        if name not in known or name not in sources.SOURCES:
            raise InputError(f"task {name}: not known; expected some of {', '.join(known)}")
    say(packed.COUNTS_TITLE)
    for name in only or known:
        path = out / f"{name}.h5"
        if packed.already_built(path, digest(declare.read(name))):
            say(f"{summary(path)} (unchanged)")
            continue
        task = gather(name)
        if not len(task.rows[SPLIT_NAMES[TRAIN]]):
            raise InputError(f"task {name}: no training pictures; expected the packages {task.declaration.source}")
        packed.write(pack(task), path)
        say(summary(path))
