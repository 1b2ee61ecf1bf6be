# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Packed sets joined into one that has the classes of all; what does not fit together is refused."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from command import main

SPLITS = {"train": 9, "validation": 6, "test": 3}
CLASSES = {"a": ["one", "both"], "b": ["two", "both", "three"]}


def packed(
    folder: Path, name: str, *, side: int = 2, std: float = 0.5, scale: float = 50.0, kind: str = "cosine"
) -> Path:
    """A picture's first number is its class, its second its row, its third its set."""
    with h5py.File(folder / f"{name}.h5", "w") as file:
        for split, rows in SPLITS.items():
            labels = np.arange(rows) % len(CLASSES[name])
            pictures = np.zeros((rows, side, side, 3), np.uint8)
            pictures[:, 0, 0] = np.stack([labels, np.arange(rows), np.full(rows, ord(name))], axis=1)
            file[f"{split}/inputs"], file[f"{split}/labels"] = pictures, labels
        file["class_names"] = np.array(CLASSES[name], dtype=h5py.string_dtype())
        file["head/weight"] = np.eye(len(CLASSES[name]), 4, dtype=np.float32)
        file["head/weight"].attrs["logit_scale"] = scale
        file["head"].attrs["kind"] = kind
        file.attrs.update(task=name, modality="image", source="drawn by a test", license=f"licence of {name}")
        file.attrs["mean"], file.attrs["std"] = [0.5] * 3, [std] * 3
    return folder / f"{name}.h5"


@pytest.mark.parametrize("classifier", [False, True])
def test_classes_of_all_sets_in_their_order(classifier: bool, tmp_path: Path) -> None:
    sets = [str(packed(tmp_path, name)) for name in CLASSES]
    arguments = ["joined", *sets, "--task", "joined", "--pictures", "2", "--out", str(tmp_path / "out")]
    assert main(arguments + ["--classifier"] * classifier) == 0
    with h5py.File(tmp_path / "out" / "joined.h5") as file:
        assert file.attrs["task"] == "joined" and file.attrs["license"] == "licence of a; licence of b"
        assert file.attrs["source"] == "drawn by a test"
        assert [name.decode() for name in file["class_names"]] == ["one", "a: both", "two", "b: both", "three"]
        for split, rows in SPLITS.items():
            pictures, labels = file[f"{split}/inputs"][()], file[f"{split}/labels"][()]
            from_b = pictures[:, 0, 0, 2] == ord("b")
            assert (labels == pictures[:, 0, 0, 0] + 2 * from_b).all()
            # The first two of each class, where there are so many, each once.
            assert np.bincount(labels).tolist() == [2, min(2, rows // 2)] + 3 * [min(2, rows // 3)]
            assert len(np.unique(pictures[:, 0, 0], axis=0)) == len(labels)
        if classifier:
            assert file["head"].attrs["kind"] == "words" and file["head/tokens"][()].tolist() == list(range(5))
        else:
            assert file["head"].attrs["kind"] == "cosine" and file["head/weight"].attrs["logit_scale"] == 50
            assert (file["head/weight"][()] == np.concatenate([np.eye(2, 4), np.eye(3, 4)])).all()


@pytest.mark.parametrize(
    ("second", "arguments", "words"),
    [
        ({}, ["--pictures", "0"], "--pictures 0: expected 1 or more"),
        ({}, ["--task", "a/b"], "--task a/b: expected"),
        ({"side": 3}, [], "b.h5: pictures of (3, 3, 3); expected (2, 2, 3)"),
        ({"std": 0.25}, [], "b.h5: has another std than"),
        ({"scale": 49.0}, [], "b.h5: its head is of another width or scale"),
        ({"kind": "affine"}, [], "b.h5: its head is affine; expected cosine, or --classifier"),
        (None, [], "expected two packed tasks or more"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    second: dict | None, arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [packed(tmp_path, "a")] + ([] if second is None else [packed(tmp_path, "b", **second)])
    given = ["joined", *map(str, sets), "--task", "joined", *arguments, "--out", str(tmp_path / "out")]
    assert main(given) == 2
    line = capsys.readouterr().err
    assert words in line and line.count("\n") == 1 and not (tmp_path / "out" / "joined.h5").exists()
