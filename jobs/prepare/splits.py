"""Splitting by key: pictures that share a key (a font, an icon's name, a character) stay in one split.

A random split of such data leaks: the same icon in two sizes, or the same letter in two weights of one font,
would stand on both sides.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TRAIN, VALIDATION, TEST = 0, 1, 2
SPLIT_NAMES = ("train", "validation", "test")
TEST_FRACTION = 0.2
VALIDATION_FRACTION = 0.1
VALIDATION_MOST = 5000


def stable_hash(text: str) -> int:
    """The same 64 bits for the same text in every run and on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def merge_keys(keys: Sequence[str], images: NDArray[np.uint8]) -> list[str]:
    """Let keys whose pictures are equal to the last byte become one key."""
    parent = {key: key for key in keys}

    def root(key: str) -> str:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    seen: dict[bytes, str] = {}
    for key, image in zip(keys, images, strict=True):
        other = seen.setdefault(hashlib.sha256(image.tobytes()).digest(), key)
        first, second = sorted((root(key), root(other)))
        parent[second] = first
    return [root(key) for key in keys]


def split_by_key(
    keys: Sequence[str],
    seed: str,
    fixed: NDArray[np.int64] | None = None,
    test_fraction: float = TEST_FRACTION,
) -> NDArray[np.int64]:
    """TRAIN, VALIDATION or TEST for each row; no key is drawn for two of them.

    `fixed` holds a split that came with the data (TRAIN, VALIDATION or TEST a row, −1 where open). Where it
    names no test or no validation rows, whole keys are drawn for them from what is left, in the order of their
    hashes: a fifth of all rows for test, then min(10 % of train, 5000) for validation. Keys that the given splits
    share stay shared, and what is drawn may share one with a given split: callers look at that.
    """
    count = len(keys)
    split = np.full(count, TRAIN, np.int64) if fixed is None else np.where(fixed < 0, TRAIN, fixed)
    rows: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        if split[row] == TRAIN:
            rows.setdefault(key, []).append(row)
    order = sorted(rows, key=lambda key: (stable_hash(f"{seed}/{key}"), key))

    def draw(wanted: int, into: int) -> None:
        taken = 0
        while order and taken < wanted:
            members = rows[order.pop()]
            split[members] = into
            taken += len(members)

    if not (split == TEST).any():
        draw(round(test_fraction * count), TEST)
    if not (split == VALIDATION).any():
        left = int((split == TRAIN).sum())
        draw(min(round(VALIDATION_FRACTION * left), VALIDATION_MOST), VALIDATION)
    return split


def shuffled_rows(split: NDArray[np.int64], which: int, seed: str, most: int | None = None) -> NDArray[np.int64]:
    """The rows of one split in an order that the seed fixes; at most `most` of them."""
    rows = np.flatnonzero(split == which)
    generator = np.random.default_rng(stable_hash(f"{seed}/{SPLIT_NAMES[which]}"))
    return generator.permutation(rows)[:most]


def balanced(rows: NDArray[np.int64], labels: NDArray[np.int64], most: int | None) -> NDArray[np.int64]:
    """Keeps the first `most` rows of each class, in their order, or all where `most` is None."""
    if most is None:
        return rows
    kept: dict[int, int] = {}
    chosen = []
    for row in rows:
        label = int(labels[row])
        kept[label] = kept.get(label, 0) + 1
        if kept[label] <= most:
            chosen.append(row)
    return np.array(chosen, np.int64)


def cap_per_class(labels: Sequence[int], keys: Sequence[str], most: int, seed: str) -> list[int]:
    """Rows to keep so that no class has more than `most`, taken in the order of their keys' hashes."""
    order = sorted(range(len(labels)), key=lambda row: (stable_hash(f"{seed}/cap/{keys[row]}"), row))
    kept: dict[int, int] = {}
    rows = []
    for row in order:
        if kept.get(labels[row], 0) < most:
            kept[labels[row]] = kept.get(labels[row], 0) + 1
            rows.append(row)
    return sorted(rows)
